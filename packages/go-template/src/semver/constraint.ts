import { CallError } from '../errors.ts'
import { compareVersions, parseVersion, type SemVer } from './version.ts'

/** One comparison. `minorOpen` and `patchOpen` say which parts were left out or are an x. */
interface Constraint {
  operator: string
  version: SemVer
  isOpen: boolean
  minorOpen: boolean
  patchOpen: boolean
}

const PART = String.raw`[0-9|xX*]+`
const IDENTIFIERS = String.raw`[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*`
const VERSION = String.raw`v?(${PART})(?:\.(${PART}))?(?:\.(${PART}))?(-${IDENTIFIERS})?(?:\+${IDENTIFIERS})?`
const CONSTRAINT = new RegExp(String.raw`\s*(!=|=>|>=|=<|<=|~>|[=<>~^]|)\s*${VERSION}\s*,?`, 'y')
const RANGE = new RegExp(String.raw`(?<![^\s,|])(${VERSION})\s+-\s+(${VERSION})`, 'g')

/** Whether a version satisfies constraints: alternatives by `||`, each a list that must all hold. */
export function satisfies(constraints: string, version: SemVer): boolean {
  const ranged = constraints.replace(RANGE, (_, low: string, ...rest: string[]) => `>= ${low}, <= ${rest[4]}`)
  const alternatives = ranged.split('||').map(parseAll)
  return alternatives.some((all) => all.every((constraint) => holds(constraint, version)))
}

function parseAll(text: string): Constraint[] {
  const found: Constraint[] = []
  CONSTRAINT.lastIndex = 0
  for (let at = 0; at < text.length || found.length === 0; at = CONSTRAINT.lastIndex) {
    CONSTRAINT.lastIndex = at
    const match = CONSTRAINT.exec(text)
    if (!match) throw new CallError(`improper constraint: ${text}`)
    found.push(parseOne(match))
  }
  return found
}

const isOpenPart = (part: string | undefined): boolean => part === undefined || /^[xX*]$/.test(part)

function parseOne([, operator = '', major, minor, patch, prerelease = '']: RegExpExecArray): Constraint {
  const majorOpen = isOpenPart(major)
  const minorOpen = !majorOpen && isOpenPart(minor)
  const patchOpen = !majorOpen && !minorOpen && isOpenPart(patch)
  const parts = majorOpen
    ? '0.0.0'
    : minorOpen
      ? `${major}.0.0`
      : `${major}.${minor}.${patchOpen ? '0' : patch}`
  try {
    const version = parseVersion(parts + prerelease)
    return { operator, version, isOpen: majorOpen || minorOpen || patchOpen, minorOpen, patchOpen }
  } catch (error) {
    throw new CallError('constraint Parser Error', { cause: error })
  }
}

function holds(constraint: Constraint, version: SemVer): boolean {
  // A prerelease satisfies only a constraint that names one.
  if (version.prerelease && !constraint.version.prerelease) return false
  const order = compareVersions(version, constraint.version)
  switch (constraint.operator) {
    case '!=':
      return constraint.isOpen ? !sameOpen(constraint, version) : order !== 0
    case '>':
      return isGreater(constraint, version, order)
    case '<':
      return order < 0
    case '>=':
    case '=>':
      return order >= 0
    case '<=':
    case '=<':
      return constraint.isOpen ? isLessOrWithin(constraint, version) : order <= 0
    case '~':
    case '~>':
      return isTilde(constraint, version, order)
    case '^':
      return isCaret(constraint, version, order)
    default:
      return constraint.isOpen ? isTilde(constraint, version, order) : order === 0
  }
}

function sameOpen({ version: wanted, minorOpen }: Constraint, version: SemVer): boolean {
  if (wanted.major !== version.major) return false
  return minorOpen || wanted.minor === version.minor
}

function isGreater(constraint: Constraint, version: SemVer, order: number): boolean {
  const wanted = constraint.version
  if (!constraint.isOpen) return order > 0
  if (version.major !== wanted.major) return version.major > wanted.major
  if (constraint.minorOpen) return false
  return constraint.patchOpen ? version.minor > wanted.minor : order > 0
}

function isLessOrWithin({ version: wanted, minorOpen }: Constraint, version: SemVer): boolean {
  if (version.major > wanted.major) return false
  return !(version.major === wanted.major && version.minor > wanted.minor && !minorOpen)
}

function isTilde(
  { version: wanted, minorOpen, patchOpen }: Constraint,
  version: SemVer,
  order: number,
): boolean {
  const isZero = wanted.major === 0n && wanted.minor === 0n && wanted.patch === 0n
  if (isZero && !minorOpen && !patchOpen) return true
  if (order < 0 || version.major !== wanted.major) return false
  return minorOpen || version.minor === wanted.minor
}

function isCaret(
  { version: wanted, minorOpen, patchOpen }: Constraint,
  version: SemVer,
  order: number,
): boolean {
  if (order < 0) return false
  if (wanted.major > 0n || minorOpen) return version.major === wanted.major
  if (version.major > 0n) return false
  if (wanted.minor > 0n || patchOpen) return version.minor === wanted.minor
  return version.minor === 0n && version.patch === wanted.patch
}
