import { gzipSync } from 'node:zlib'

export interface TarEntry {
  name: string
  content?: string | Buffer
  /** Of the tar format: `0` a file, `1` a hard link, `2` a link, `3` a device. */
  type?: string
  link?: string
}

/** An archive with exactly these entries, also such as no honest program writes. */
export function tarGz(entries: TarEntry[]): Buffer {
  const blocks = entries.flatMap((entry) => {
    const content = Buffer.from(entry.content ?? '')
    const padding = Buffer.alloc((512 - (content.byteLength % 512)) % 512)
    return [header(entry, content.byteLength), content, padding]
  })
  return gzipSync(Buffer.concat([...blocks, Buffer.alloc(1024)]))
}

function header({ name, type = '0', link = '' }: TarEntry, size: number): Buffer {
  const block = Buffer.alloc(512)
  block.write(name, 0, 100)
  block.write('0000644\0', 100)
  block.write('0000000\0', 108)
  block.write('0000000\0', 116)
  block.write(`${size.toString(8).padStart(11, '0')}\0`, 124)
  block.write('00000000000\0', 136)
  block.write('        ', 148)
  block.write(type, 156)
  block.write(link, 157, 100)
  block.write('ustar\u000000', 257)
  const sum = block.reduce((total, byte) => total + byte, 0)
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
  return block
}

/** What an archive may not hold, each with a name for the test. */
export const HOSTILE: [string, TarEntry[]][] = [
  ['a way up', [{ name: 'chart/../../../escaped', content: 'x' }]],
  ['an absolute path', [{ name: '/tmp/tenon-escaped', content: 'x' }]],
  ['a link', [{ name: 'chart/link', type: '2', link: '/etc/passwd' }]],
  ['a hard link', [{ name: 'chart/link', type: '1', link: '../../../etc/passwd' }]],
  ['a device', [{ name: 'chart/null', type: '3' }]],
]

/** Small when packed, more than any limit when unpacked. */
export function bomb(megabytes: number): Buffer {
  return tarGz([{ name: 'chart/bomb', content: Buffer.alloc(megabytes * 1024 * 1024) }])
}
