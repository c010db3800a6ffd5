import { CallError } from '../errors.ts'
import { fn, type Functions, type GoFunction } from '../functions/functions.ts'
import { satisfies } from '../semver/constraint.ts'
import { compareVersions, incremented, parseVersion, type SemVer, versionText } from '../semver/version.ts'
import { type GoObject, Int, int, type Value } from '../values/values.ts'

/** A version as templates see it: a pointer as `semver` gives it, or the plain value an increment gives. */
class Version implements GoObject {
  readonly version: SemVer
  readonly goKind: 'ptr' | 'struct'
  readonly goType: string

  constructor(version: SemVer, goKind: 'ptr' | 'struct') {
    this.version = version
    this.goKind = goKind
    this.goType = goKind === 'ptr' ? '*semver.Version' : 'semver.Version'
  }

  get methods(): Readonly<Record<string, GoFunction>> {
    return this.goKind === 'ptr' ? POINTER_METHODS : VALUE_METHODS
  }

  text(): string {
    return versionText(this.version)
  }
}

function versionOf(value: Value): SemVer {
  if (value instanceof Version) return value.version
  throw new CallError('runtime error: invalid memory address or nil pointer dereference')
}

const uint = (value: bigint): Int => new Int(value, 'uint64')

/** A method gets its receiver before its arguments. */
const reads = (read: (version: SemVer) => Value): GoFunction => ({
  parameters: [],
  rest: undefined,
  call: (_, [receiver]) => read(versionOf(receiver)),
})

const increments = (part: 'major' | 'minor' | 'patch'): GoFunction =>
  reads((version) => new Version(incremented(version, part), 'struct'))

const compares = (decide: (order: number) => Value): GoFunction => ({
  parameters: ['semver'],
  rest: undefined,
  call: (_, [receiver, other]) => decide(compareVersions(versionOf(receiver), versionOf(other))),
})

const VALUE_METHODS: Readonly<Record<string, GoFunction>> = {
  Major: reads((version) => uint(version.major)),
  Minor: reads((version) => uint(version.minor)),
  Patch: reads((version) => uint(version.patch)),
  Prerelease: reads((version) => version.prerelease),
  Metadata: reads((version) => version.metadata),
  String: reads(versionText),
  IncMajor: increments('major'),
  IncMinor: increments('minor'),
  IncPatch: increments('patch'),
}

const POINTER_METHODS: Readonly<Record<string, GoFunction>> = {
  ...VALUE_METHODS,
  Original: reads((version) => version.original),
  Compare: compares((order) => int(order)),
  Equal: compares((order) => order === 0),
  LessThan: compares((order) => order < 0),
  GreaterThan: compares((order) => order > 0),
}

export const SEMVER_FUNCTIONS: Functions = {
  semver: fn(['string'], (text) => new Version(parseVersion(text), 'ptr')),
  semverCompare: fn(['string', 'string'], (constraint, text) => satisfies(constraint, parseVersion(text))),
}
