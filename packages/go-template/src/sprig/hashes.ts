/** Hashes of byte strings, in hexadecimal. Written out, since this package has no I/O and no platform. */

const rotateRight = (word: number, by: number): number => (word >>> by) | (word << (32 - by))
const rotateLeft = (word: number, by: number): number => (word << by) | (word >>> (32 - by))
const hex = (words: Int32Array): string =>
  Array.from(words, (word) => (word >>> 0).toString(16).padStart(8, '0')).join('')

/** The message with its padding and length, as big-endian words: 16 to a block. */
function paddedWords(bytes: string): Int32Array {
  const blocks = Math.floor((bytes.length + 8) / 64) + 1
  const view = new DataView(new ArrayBuffer(blocks * 64))
  for (let i = 0; i < bytes.length; i++) view.setUint8(i, bytes.charCodeAt(i))
  view.setUint8(bytes.length, 0x80)
  view.setBigUint64(blocks * 64 - 8, BigInt(bytes.length) * 8n)
  return Int32Array.from({ length: blocks * 16 }, (_, i) => view.getInt32(i * 4))
}

function primes(count: number): number[] {
  const found: number[] = []
  for (let n = 2; found.length < count; n++) if (found.every((prime) => n % prime !== 0)) found.push(n)
  return found
}

/** The first 32 bits of a fraction: SHA-256's constants are those of roots of primes. */
const fractionBits = (value: number): number => Math.floor((value - Math.floor(value)) * 2 ** 32)
const K = Int32Array.from(primes(64), (prime) => fractionBits(Math.cbrt(prime)))
const SHA256_START = Int32Array.from(primes(8), (prime) => fractionBits(Math.sqrt(prime)))

export function sha256(bytes: string): string {
  const words = paddedWords(bytes)
  const state = SHA256_START.slice()
  const w = new Int32Array(64)
  for (let block = 0; block < words.length; block += 16) {
    w.set(words.subarray(block, block + 16))
    for (let i = 16; i < 64; i++) {
      const [x, y] = [w[i - 15] as number, w[i - 2] as number]
      const s0 = rotateRight(x, 7) ^ rotateRight(x, 18) ^ (x >>> 3)
      const s1 = rotateRight(y, 17) ^ rotateRight(y, 19) ^ (y >>> 10)
      w[i] = (w[i - 16] as number) + s0 + (w[i - 7] as number) + s1
    }
    sha256Block(state, w)
  }
  return hex(state)
}

function sha256Block(state: Int32Array, w: Int32Array): void {
  let [a, b, c, d, e, f, g, h] = state as unknown as number[] as Eight
  for (let i = 0; i < 64; i++) {
    const s1 = rotateRight(e, 6) ^ rotateRight(e, 11) ^ rotateRight(e, 25)
    const t1 = (h + s1 + ((e & f) ^ (~e & g)) + (K[i] as number) + (w[i] as number)) | 0
    const s0 = rotateRight(a, 2) ^ rotateRight(a, 13) ^ rotateRight(a, 22)
    const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0
    ;[h, g, f, e, d, c, b, a] = [g, f, e, (d + t1) | 0, c, b, a, (t1 + t2) | 0]
  }
  for (const [i, word] of [a, b, c, d, e, f, g, h].entries()) state[i] = (state[i] as number) + word
}

type Eight = [number, number, number, number, number, number, number, number]

const SHA1_START = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0]
const SHA1_ROUNDS = [0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6]

export function sha1(bytes: string): string {
  const words = paddedWords(bytes)
  const state = Int32Array.from(SHA1_START)
  const w = new Int32Array(80)
  for (let block = 0; block < words.length; block += 16) {
    w.set(words.subarray(block, block + 16))
    for (let i = 16; i < 80; i++) {
      const mixed =
        (w[i - 3] as number) ^ (w[i - 8] as number) ^ (w[i - 14] as number) ^ (w[i - 16] as number)
      w[i] = rotateLeft(mixed, 1)
    }
    let [a, b, c, d, e] = state as unknown as number[] as [number, number, number, number, number]
    for (let i = 0; i < 80; i++) {
      const round = Math.floor(i / 20)
      const choice = round === 0 ? (b & c) | (~b & d) : round === 2 ? (b & c) | (b & d) | (c & d) : b ^ c ^ d
      const next = (rotateLeft(a, 5) + choice + e + (SHA1_ROUNDS[round] as number) + (w[i] as number)) | 0
      ;[e, d, c, b, a] = [d, c, rotateLeft(b, 30), a, next]
    }
    for (const [i, word] of [a, b, c, d, e].entries()) state[i] = (state[i] as number) + word
  }
  return hex(state)
}

export function adler32(bytes: string): number {
  let [a, b] = [1, 0]
  for (let i = 0; i < bytes.length; i++) {
    a = (a + bytes.charCodeAt(i)) % 65521
    b = (b + a) % 65521
  }
  return b * 65536 + a
}
