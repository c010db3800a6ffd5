import {
  componentAliases,
  ConfigRenderError,
  referencesOf,
  STATE_ROOTS,
  type ReferencesOf,
  type Json,
} from '@tenon/core'
import { hasField, walkFields } from './check-file.ts'
import type { Path, Place } from './locate.ts'
import { expectOneOf } from './nearest.ts'
import type { Findings } from './problem.ts'
import type { FieldMeta } from './schemas/fields.ts'
import type { FileKind } from './schemas/kinds.ts'
import type { TomlFile } from './toml-file.ts'

/** The names that templates may use. */
export interface KnownNames {
  component: ReadonlySet<string>
  input: ReadonlySet<string>
  secret: ReadonlySet<string>
}

export function knownNames(parts: {
  components: readonly { name: string; varName?: string | undefined }[]
  inputs: readonly { name: string }[]
  secrets: readonly { name: string }[]
}): KnownNames {
  return {
    component: new Set(parts.components.flatMap(componentAliases)),
    input: new Set(parts.inputs.map(({ name }) => name)),
    secret: new Set(parts.secrets.map(({ name }) => name)),
  }
}

/** What each text reads, parsed once however often it is asked for. */
export function rememberReferences(): ReferencesOf {
  const known = new Map<string, ReturnType<ReferencesOf>>()
  return (text) => {
    let references = known.get(text)
    if (!references) known.set(text, (references = referencesOf(text)))
    return references
  }
}

/** Every template of a file must parse, and use names that the app has. */
export function checkTemplates(
  toml: TomlFile,
  kind: FileKind,
  known: KnownNames,
  read: ReferencesOf,
  findings: Findings,
): void {
  const found = [...templateStrings(toml.value, [])]
  if (found.length === 0) return
  const special = new Map<string, 'plain' | 'lenient'>()
  const isSpecial = (meta: FieldMeta) => meta.plain ?? meta.lenient
  if (hasField(kind.schema, isSpecial))
    walkFields(kind.schema, toml.value, ({ path, meta }) => {
      if (isSpecial(meta)) special.set(path.join('\u0000'), meta.plain ? 'plain' : 'lenient')
    })
  for (const [path, text] of found) {
    const how = special.get(path.join('\u0000'))
    if (how === 'plain') continue
    for (const { inside, message, expected, isSpare } of mistakesIn(text, known, kind, read)) {
      const place = toml.inString(path, inside)
      if (how === 'lenient' || isSpare === true)
        findings.warnings.push({ ...place, message: `${message}; expected ${expected}` })
      else findings.problems.push({ ...place, message, expected })
    }
  }
}

interface Mistake {
  inside: Place
  message: string
  expected: string
  /** The template says itself what it takes instead. */
  isSpare?: boolean
}

function* mistakesIn(
  text: string,
  known: KnownNames,
  kind: FileKind,
  read: ReferencesOf,
): Generator<Mistake> {
  let references: ReturnType<ReferencesOf>
  try {
    references = read(text)
  } catch (error) {
    if (!(error instanceof ConfigRenderError)) throw error
    const message = error.message.replace(/^template: template:\d+(?::\d+)?: /, '')
    yield { inside: error, message: `bad template: ${message}`, expected: 'a Go template' }
    return
  }
  const seen = new Set<string>()
  for (const way of references.all) {
    const used = usedName(way)
    if (!used || used.name === '*' || used.name === 'populated' || seen.has(`${used.part} ${used.name}`))
      continue
    seen.add(`${used.part} ${used.name}`)
    // A runbook asks for inputs of its own.
    if (used.part === 'input' && kind.name === 'runbook') continue
    const names = known[used.part]
    if (names.has(used.name)) continue
    const message = `the template uses ${way.join('.')}: there is no ${used.part} ${used.name}`
    const expected = expectOneOf(used.name, [...names], `a name of one: the app has no ${used.part}s`)
    yield {
      inside: placeOfName(text, used.name),
      message,
      expected,
      isSpare: !isAmong(references.needed, used),
    }
  }
}

function isAmong(ways: readonly string[][], { part, name }: UsedName): boolean {
  return ways.map(usedName).some((each) => each?.part === part && each.name === name)
}

interface UsedName {
  part: keyof KnownNames
  name: string
}

function usedName(way: readonly string[]): UsedName | undefined {
  const [root, part, name, next] = way
  if (!STATE_ROOTS.includes(root as (typeof STATE_ROOTS)[number]) || name === undefined) return undefined
  if (part === 'components') return { part: 'component', name }
  if (part === 'secrets') return { part: 'secret', name }
  if (part === 'inputs' && name !== 'inputs') return { part: 'input', name }
  const nested = (part === 'inputs' && name === 'inputs') || (part === 'install' && name === 'inputs')
  return nested && next !== undefined ? { part: 'input', name: next } : undefined
}

function placeOfName(text: string, name: string): Place {
  const offsets = [text.indexOf(`.${name}`) + 1, text.indexOf(`"${name}"`) + 1]
  const before = text.slice(0, offsets.find((offset) => offset > 0) ?? 0).split('\n')
  return { line: before.length, column: [...before.at(-1)!].length + 1 }
}

function* templateStrings(value: Json, path: Path): Generator<[Path, string]> {
  if (typeof value === 'string') {
    if (value.includes('{{')) yield [path, value]
  } else if (Array.isArray(value)) {
    for (const [i, child] of value.entries()) yield* templateStrings(child, [...path, i])
  } else if (typeof value === 'object' && value !== null) {
    for (const [key, child] of Object.entries(value)) yield* templateStrings(child, [...path, key])
  }
}
