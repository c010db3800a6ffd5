import { CallError } from '../errors.ts'

export interface SemVer {
  major: bigint
  minor: bigint
  patch: bigint
  prerelease: string
  metadata: string
  original: string
}

const IDENTIFIERS = String.raw`[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*`
const VERSION = new RegExp(
  String.raw`^v?([0-9]+)(?:\.([0-9]+))?(?:\.([0-9]+))?(?:-(${IDENTIFIERS}))?(?:\+(${IDENTIFIERS}))?$`,
)

/** Reads a version loosely: a `v` before it, and parts left out, are fine. */
export function parseVersion(text: string): SemVer {
  const match = VERSION.exec(text)
  if (!match) throw new CallError('Invalid Semantic Version')
  const [, major = '0', minor = '0', patch = '0', prerelease = '', metadata = ''] = match
  const parts = [major, minor, patch].map(BigInt) as [bigint, bigint, bigint]
  if (parts.some((part) => part >= 2n ** 64n))
    throw new CallError('Error parsing version segment: value out of range')
  if (prerelease.split('.').some((part) => /^0[0-9]+$/.test(part))) {
    throw new CallError('Version segment starts with 0')
  }
  return { major: parts[0], minor: parts[1], patch: parts[2], prerelease, metadata, original: text }
}

export function versionText({ major, minor, patch, prerelease, metadata }: SemVer): string {
  return `${major}.${minor}.${patch}${prerelease && `-${prerelease}`}${metadata && `+${metadata}`}`
}

const sign = (a: bigint, b: bigint): number => (a < b ? -1 : a > b ? 1 : 0)

export function compareVersions(a: SemVer, b: SemVer): number {
  return (
    sign(a.major, b.major) ||
    sign(a.minor, b.minor) ||
    sign(a.patch, b.patch) ||
    comparePrereleases(a.prerelease, b.prerelease)
  )
}

function comparePrereleases(a: string, b: string): number {
  if (a === b) return 0
  if (a === '' || b === '') return a === '' ? 1 : -1
  const [left, right] = [a.split('.'), b.split('.')]
  for (let i = 0; i < Math.max(left.length, right.length); i++) {
    const [x, y] = [left[i], right[i]]
    if (x === y) continue
    if (x === undefined || y === undefined) return x === undefined ? -1 : 1
    const [xIsNumber, yIsNumber] = [x, y].map((part) => /^[0-9]+$/.test(part))
    if (xIsNumber && yIsNumber) return sign(BigInt(x), BigInt(y))
    if (xIsNumber || yIsNumber) return xIsNumber ? -1 : 1
    return x < y ? -1 : 1
  }
  return 0
}

export function incremented(version: SemVer, part: 'major' | 'minor' | 'patch'): SemVer {
  const { major, minor, patch, prerelease } = version
  const next = { prerelease: '', metadata: '' }
  const done = (parts: Pick<SemVer, 'major' | 'minor' | 'patch'>): SemVer => {
    const made = { ...parts, ...next, original: '' }
    return { ...made, original: (version.original.startsWith('v') ? 'v' : '') + versionText(made) }
  }
  if (part === 'major') return done({ major: major + 1n, minor: 0n, patch: 0n })
  if (part === 'minor') return done({ major, minor: minor + 1n, patch: 0n })
  return done({ major, minor, patch: prerelease ? patch : patch + 1n })
}
