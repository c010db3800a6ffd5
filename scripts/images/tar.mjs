// A tar archive of entries in memory: sorted, owned by root, without times, so the same entries give the same bytes.
const BLOCK = 512
/** 1980-01-01, the earliest date every archive tool can show. */
const MTIME = 315_532_800

/**
 * @param {Map<string, { data: Buffer, mode?: number } | { link: string }>} entries by path without leading slash
 * @returns {Buffer[]}
 */
export function packTar(entries) {
  const folders = new Set([...entries.keys()].flatMap(parents))
  const names = [...new Set([...folders, ...entries.keys()])].toSorted((a, b) => (a < b ? -1 : 1))
  const blocks = names.flatMap((name) => {
    const entry = entries.get(name)
    if (entry === undefined) return [header(`${name}/`, { type: '5', mode: 0o755 })]
    if ('link' in entry) return [header(name, { type: '2', mode: 0o777, link: entry.link })]
    const { data, mode = 0o644 } = entry
    const padding = Buffer.alloc((BLOCK - (data.length % BLOCK)) % BLOCK)
    return [header(name, { type: '0', mode, size: data.length }), data, padding]
  })
  return [...blocks, Buffer.alloc(2 * BLOCK)]
}

function parents(name) {
  const parts = name.split('/').slice(0, -1)
  return parts.map((_, index) => parts.slice(0, index + 1).join('/'))
}

function header(name, { type, mode, size = 0, link = '' }) {
  if (Buffer.byteLength(name) > 100 || Buffer.byteLength(link) > 100) {
    throw new Error(`The path ${name} is too long for this archive.`)
  }
  const block = Buffer.alloc(BLOCK)
  const octal = (value, length) => `${value.toString(8).padStart(length - 1, '0')}\0`
  block.write(name, 0)
  block.write(octal(mode, 8), 100)
  block.write(octal(0, 8), 108)
  block.write(octal(0, 8), 116)
  block.write(octal(size, 12), 124)
  block.write(octal(MTIME, 12), 136)
  block.write(' '.repeat(8), 148)
  block.write(type, 156)
  block.write(link, 157)
  block.write('ustar\x0000', 257)
  const sum = block.reduce((total, byte) => total + byte, 0)
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
  return block
}
