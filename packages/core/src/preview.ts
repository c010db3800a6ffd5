import { DEFAULT_LIMITS, type Functions } from '@tenon/go-template'
import type { App } from './app.ts'
import { installState, type InstallFacts, type ComponentFacts } from './install-state.ts'
import type { Json } from './json.ts'
import { ConfigRenderer, ConfigRenderError, mapStrings } from './render-config.ts'

/** What the server knows of an install: the values of sensitive outputs are not among it. */
export interface PreviewFacts extends Omit<InstallFacts, 'components' | 'secrets'> {
  components: (Omit<ComponentFacts, 'outputs'> & {
    outputs?: { [name: string]: { sensitive: boolean; value?: Json | undefined } }
  })[]
}

export interface Preview {
  value: Json
  /** Strings that could not be shown, by the keys that lead to them. */
  problems: { path: string; message: string; next: string }[]
}

const MOST_GAPS = 200

/** A configuration as it would be rendered, with words in place of what is secret or not there yet. */
export function preview(value: Json, app: App, facts: PreviewFacts, functions: Functions = {}): Preview {
  const state = installState(shownFacts(app, facts))
  const problems: Preview['problems'] = []
  const shown = mapStrings(value, [], DEFAULT_LIMITS.depth, (text, path) => {
    try {
      return fillGaps(text, path, state, functions)
    } catch (error) {
      if (!(error instanceof ConfigRenderError)) throw error
      problems.push({ path: path.join('.'), message: error.message, next: error.next })
      return text
    }
  })
  return { value: shown, problems }
}

/** Renders again with a word for each value that turns out to be missing, so that `default` and `if` still see none. */
function fillGaps(
  text: string,
  path: readonly (string | number)[],
  state: Json,
  functions: Functions,
): string {
  let known = state
  for (let gaps = 0; ; gaps++) {
    try {
      return new ConfigRenderer(known, functions).text(text, path)
    } catch (error) {
      const reference = error instanceof ConfigRenderError ? error.reference : undefined
      if (reference === undefined || reference.includes('*') || gaps >= MOST_GAPS) throw error
      known = withWord(known, reference.split('.'), `<not yet: ${reference}>`)
    }
  }
}

function withWord(state: Json, way: readonly string[], word: string): Json {
  const roots = Object.entries(state as { [root: string]: Json })
  return Object.fromEntries(roots.map(([root, value]) => [root, withChild(value, way, word)]))
}

function withChild(value: Json | undefined, way: readonly string[], word: string): Json {
  const [key, ...rest] = way
  if (key === undefined) return word
  const holder = typeof value === 'object' && value !== null && !Array.isArray(value) ? value : {}
  return { ...holder, [key]: withChild(Object.hasOwn(holder, key) ? holder[key] : undefined, rest, word) }
}

function shownFacts(app: App, facts: PreviewFacts): InstallFacts {
  const secrets = (app.secrets ?? []).map(({ name }) => [name, `<secret ${name}>`] as const)
  const inputs: { [name: string]: Json } = {}
  for (const input of app.inputs ?? []) {
    if (input.sensitive) inputs[input.name] = `<secret ${input.name}>`
    else if (input.default !== undefined) inputs[input.name] = input.default
  }
  const sensitive = new Set((app.inputs ?? []).filter((input) => input.sensitive).map(({ name }) => name))
  for (const [name, value] of Object.entries(facts.inputs ?? {})) {
    if (!sensitive.has(name)) inputs[name] = value
  }
  return {
    ...facts,
    inputs,
    secrets: Object.fromEntries(secrets),
    components: facts.components.map(({ outputs, ...rest }) => ({
      ...rest,
      ...(outputs === undefined ? {} : { outputs: shownOutputs(rest.name, outputs) }),
    })),
  }
}

function shownOutputs(
  component: string,
  outputs: { [name: string]: { sensitive: boolean; value?: Json | undefined } },
): { [name: string]: Json } {
  const shown = Object.entries(outputs).map(([name, output]) => {
    const value = output.sensitive
      ? `<secret components.${component}.outputs.${name}>`
      : (output.value ?? null)
    return [name, value] as const
  })
  return Object.fromEntries(shown)
}
