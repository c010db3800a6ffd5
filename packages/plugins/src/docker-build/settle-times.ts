import { Transform } from 'node:stream'

const BLOCK = 512
const MAX_EXTENDED_BYTES = 1024 * 1024
const TIMES = ['mtime', 'atime', 'ctime']

/**
 * Passes a tar archive on, and sets every time since `since` (seconds) to 0: what a build itself made or copied then
 * has the same bytes whenever it ran. What a base image brought is older, and stays as it is.
 */
export function createTimeSettler(since: number): Transform {
  let rest: Buffer = Buffer.alloc(0)
  let passing = 0
  let extended: { header: Buffer; padded: number } | undefined
  const step = (push: (bytes: Buffer) => void): boolean => {
    if (passing > 0) {
      const bytes = rest.subarray(0, passing)
      passing -= bytes.byteLength
      rest = rest.subarray(bytes.byteLength)
      if (bytes.byteLength > 0) push(bytes)
      return bytes.byteLength > 0
    }
    if (extended !== undefined) {
      if (rest.byteLength < extended.padded) return false
      push(settleExtended(extended.header, rest.subarray(0, extended.padded), since))
      rest = rest.subarray(extended.padded)
      extended = undefined
      return true
    }
    if (rest.byteLength < BLOCK) return false
    const header = Buffer.from(rest.subarray(0, BLOCK))
    rest = rest.subarray(BLOCK)
    const padded = Math.ceil(sizeIn(header) / BLOCK) * BLOCK
    if (header[TYPE] === EXTENDED && padded <= MAX_EXTENDED_BYTES) extended = { header, padded }
    else {
      push(settleHeader(header, since))
      passing = padded
    }
    return true
  }
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      rest = rest.byteLength === 0 ? chunk : Buffer.concat([rest, chunk])
      while (step((bytes) => this.push(bytes)));
      done()
    },
    flush(done) {
      const isWhole = rest.byteLength === 0 && passing === 0 && extended === undefined
      done(isWhole ? null : new Error('The archive of a layer is cut off.'))
    },
  })
}

const SIZE = [124, 136] as const
const MTIME = [136, 148] as const
const CHECKSUM = [148, 156] as const
const TYPE = 156
const EXTENDED = 'x'.charCodeAt(0)

function settleHeader(header: Buffer, since: number): Buffer {
  if (header.every((byte) => byte === 0) || numberIn(header, MTIME) < since) return header
  return withNumber(header, MTIME, 0)
}

/** Records of the form `LENGTH KEY=VALUE\n`; those of settled times go, and with the last of them the whole. */
function settleExtended(header: Buffer, padded: Buffer, since: number): Buffer {
  const body = padded.subarray(0, sizeIn(header))
  const records: { key: string; bytes: Buffer }[] = []
  for (let at = 0; at < body.byteLength;) {
    const length = Number.parseInt(body.subarray(at, at + 12).toString('latin1'), 10)
    if (!(length > 0)) return Buffer.concat([settleHeader(header, since), padded])
    const bytes = body.subarray(at, at + length)
    const key = /^\d+ ([^=]*)=/.exec(bytes.toString('latin1'))?.[1] ?? ''
    records.push({ key, bytes })
    at += length
  }
  const isNew = ({ key, bytes }: { key: string; bytes: Buffer }) =>
    TIMES.includes(key) && Number.parseFloat(bytes.toString('latin1').split('=')[1] ?? '') >= since
  const kept = records.filter((record) => !isNew(record))
  if (kept.length === 0) return Buffer.alloc(0)
  const content = Buffer.concat(kept.map(({ bytes }) => bytes))
  const filling = Buffer.alloc((BLOCK - (content.byteLength % BLOCK)) % BLOCK)
  return Buffer.concat([settleHeader(withNumber(header, SIZE, content.byteLength), since), content, filling])
}

function withNumber(header: Buffer, [from, to]: readonly [number, number], value: number): Buffer {
  const changed = Buffer.from(header)
  changed.write(`${value.toString(8).padStart(to - from - 1, '0')}\0`, from, 'latin1')
  changed.fill(' ', ...CHECKSUM)
  const sum = changed.reduce((total, byte) => total + byte, 0)
  changed.write(`${sum.toString(8).padStart(6, '0')}\0 `, CHECKSUM[0], 'latin1')
  return changed
}

function sizeIn(header: Buffer): number {
  return numberIn(header, SIZE)
}

/** Octal text, or base 256 behind a set first bit. */
function numberIn(header: Buffer, [from, to]: readonly [number, number]): number {
  const first = header[from] ?? 0
  if ((first & 0x80) !== 0) return header.readUIntBE(to - 6, 6)
  return Number.parseInt(header.subarray(from, to).toString('latin1').replaceAll('\0', ' ').trim() || '0', 8)
}
