import { z } from 'zod'
import { FILE_KINDS, FOLDERS, TOP_FILES, type FileKind } from './schemas/kinds.ts'

/** The kinds that have a schema; `component` is any of its types. */
export const SCHEMA_KINDS: readonly string[] = [...FILE_KINDS.keys(), 'component']

/** The JSON schema of one kind of file, as editors take it. */
export function jsonSchemaOf(kind: string): Record<string, unknown> | undefined {
  const found = FILE_KINDS.get(kind)
  if (found) return schemaOf(found)
  if (kind !== 'component') return undefined
  const types = [...FILE_KINDS.values()].filter(({ name }) => name.startsWith('component-'))
  return {
    $schema: DRAFT,
    $id: idOf(kind),
    title: 'a component',
    anyOf: types.map((type) => {
      const { $schema: _, ...rest } = schemaOf(type)
      return rest
    }),
  }
}

/** Which files a kind is for, as a pattern below the app's folder. */
export function filesOf(kind: string): string {
  const top = Object.entries(TOP_FILES).filter(([, name]) => name === kind)
  const folders = Object.entries(FOLDERS).filter(
    ([, { each }]) => each === kind || kind.startsWith(`${each}-`),
  )
  return [...top.map(([file]) => `${file}.toml`), ...folders.map(([folder]) => `${folder}/*.toml`)].join(', ')
}

const DRAFT = 'http://json-schema.org/draft-07/schema#'

const idOf = (kind: string): string => `urn:tenon:app-config:${kind}`

/** What only the loader needs to know. */
const OURS = ['file', 'mayMiss', 'atBuild', 'plain', 'lenient', 'older', 'note', 'idleValues'] as const

const NOTES: Readonly<Record<string, string>> = {
  carried: 'Kept for later: nothing acts on it yet.',
  warned: 'Set aside',
}

function schemaOf(kind: FileKind): Record<string, unknown> {
  const made = z.toJSONSchema(kind.schema, {
    target: 'draft-7',
    io: 'input',
    unrepresentable: 'any',
    override: ({ jsonSchema }) => {
      const schema = jsonSchema as Record<string, unknown>
      const note = NOTES[String(schema['tenon'])]
      if (note !== undefined && typeof schema['description'] === 'string')
        schema['description'] += ` ${note}${typeof schema['note'] === 'string' ? `: ${schema['note']}.` : ''}`
      if (schema['tenon'] === 'warned') schema['deprecated'] = true
      for (const key of OURS) delete schema[key]
    },
  })
  const { $schema: _, ...rest } = made
  return { $schema: DRAFT, $id: idOf(kind.name), title: kind.title, ...rest }
}
