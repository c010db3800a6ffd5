const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz'

export const ID_PREFIXES = {
  app: 'app',
  appVersion: 'ver',
  build: 'bld',
  install: 'ins',
  agent: 'agt',
  run: 'run',
  step: 'stp',
  job: 'job',
  deploy: 'dep',
  token: 'tok',
  principal: 'prn',
  joinToken: 'jtk',
  registryLogin: 'rlg',
  session: 'ses',
  process: 'srv',
  key: 'key',
} as const

export type IdKind = keyof typeof ID_PREFIXES

export const ID_PATTERN = /^[a-z]{3}_[0-9a-hjkmnp-tv-z]{26}$/

/** Sorted by time, so that new rows stay together in an index; the ten random bytes make it unguessable enough to be unique. */
export function makeId(kind: IdKind, nowMs: number, random: Uint8Array): string {
  let time = ''
  for (let rest = nowMs, i = 0; i < 10; i++, rest = Math.floor(rest / 32)) time = ALPHABET[rest % 32] + time
  return `${ID_PREFIXES[kind]}_${time}${base32(random.subarray(0, 10))}`
}

function base32(bytes: Uint8Array): string {
  let out = ''
  let buffer = 0
  let bits = 0
  for (const byte of bytes) {
    buffer = (buffer << 8) | byte
    for (bits += 8; bits >= 5;) {
      bits -= 5
      out += ALPHABET[(buffer >> bits) & 31]
    }
    buffer &= (1 << bits) - 1
  }
  return out
}
