import { parseTemplate, TemplateError, templateReferences, type TemplateReferences } from '@tenon/go-template'
import type { App } from './app.ts'
import { componentAliases, STATE_ROOTS } from './install-state.ts'
import type { Json } from './json.ts'
import { templateFailure } from './render-config.ts'

/** What a value's templates read of the install's state, by name. `*` alone: all of them, since the template does not tell. */
export interface Uses {
  inputs: string[]
  secrets: string[]
  /** As templates name them: a component's name or its `varName`. */
  components: string[]
}

/** The ways into the data that a text reads; given by those who have parsed it already. */
export type ReferencesOf = (text: string) => TemplateReferences

/** Throws a ConfigRenderError with the code `bad_template`. */
export const referencesOf: ReferencesOf = (text) => {
  try {
    return templateReferences(parseTemplate(text))
  } catch (error) {
    throw error instanceof TemplateError ? templateFailure(error, []) : error
  }
}

/** Throws the ConfigRenderError of the first string that is no template. */
export function usesOf(value: Json, read: ReferencesOf = referencesOf): Uses {
  const inputs = new Set<string>()
  const secrets = new Set<string>()
  const components = new Set<string>()
  for (const text of templatesIn(value)) {
    for (const path of read(text).all) {
      const [root, part, ...rest] = path
      if (root === undefined || !STATE_ROOTS.includes(root as (typeof STATE_ROOTS)[number])) continue
      if (part === 'secrets') secrets.add(rest[0] ?? '*')
      if (part === 'components') components.add(rest[0] ?? '*')
      if (part === 'inputs') inputs.add((rest[0] === 'inputs' ? rest[1] : rest[0]) ?? '*')
      if (part === 'install' && rest[0] === 'inputs') inputs.add(rest[1] ?? '*')
    }
  }
  return { inputs: [...inputs], secrets: [...secrets], components: [...components] }
}

/** Every string in a value that may hold an expression. */
export function* templatesIn(value: Json): Generator<string> {
  if (typeof value === 'string') {
    if (value.includes('{{')) yield value
  } else if (typeof value === 'object' && value !== null) {
    for (const child of Object.values(value)) yield* templatesIn(child)
  }
}

/** The same app, each component depending also on those whose outputs its templates read. */
export function withTemplateDependencies(app: App, read?: ReferencesOf): App {
  const byName = new Map(
    app.components.flatMap((c) => componentAliases(c).map((name) => [name, c.name] as const)),
  )
  return {
    ...app,
    components: app.components.map((component) => {
      const used = usesOf(component.config, read).components.flatMap((name) => byName.get(name) ?? [])
      const all = new Set([...component.dependencies, ...used.filter((name) => name !== component.name)])
      return { ...component, dependencies: [...all] }
    }),
  }
}
