import type { App, AppInput } from './app.ts'
import { usesOf } from './app-uses.ts'
import type { Json } from './json.ts'

export interface InputProblem {
  input: string
  message: string
  /** It was not given at all. */
  isMissing?: true
}

export interface CheckedInputs {
  /** What was given, as its type wants it. */
  values: { [name: string]: Json }
  problems: InputProblem[]
}

/** Sensitive values are not among these: they are sealed to the install, so that the server never has them. */
export function checkInputs(app: Pick<App, 'inputs'>, given: { [name: string]: Json }): CheckedInputs {
  const declared = app.inputs ?? []
  const byName = new Map(declared.map((input) => [input.name, input]))
  const values: { [name: string]: Json } = {}
  const problems: InputProblem[] = []
  for (const [name, value] of Object.entries(given)) {
    const input = byName.get(name)
    const checked = input ? checkValue(input, value) : { problem: 'the app has no such input' }
    if ('problem' in checked) problems.push({ input: name, message: checked.problem })
    else values[name] = checked.value
  }
  for (const { name, required, sensitive, default: preset } of declared) {
    if (required && !sensitive && preset === undefined && given[name] === undefined)
      problems.push({ input: name, message: 'it is required', isMissing: true })
  }
  return { values, problems }
}

function checkValue(input: AppInput, value: Json): { value: Json } | { problem: string } {
  if (input.sensitive) return { problem: 'it is sensitive: seal it to the install instead' }
  switch (input.type) {
    case 'number': {
      const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : value
      return typeof number === 'number' && Number.isFinite(number)
        ? { value: number }
        : { problem: 'it must be a number' }
    }
    case 'bool':
      if (typeof value === 'boolean') return { value }
      return value === 'true' || value === 'false'
        ? { value: value === 'true' }
        : { problem: 'it must be true or false' }
    case 'list': {
      const list = typeof value === 'string' ? parsed(value) : value
      return Array.isArray(list) ? { value: list } : { problem: 'it must be a list' }
    }
    case 'json': {
      const content = typeof value === 'string' ? parsed(value) : value
      return content === undefined ? { problem: 'it must be JSON' } : { value: content }
    }
    case 'string':
    case 'yaml':
    case 'hcl':
      return typeof value === 'string' ? { value } : { problem: 'it must be text' }
  }
}

function parsed(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json
  } catch {
    return undefined
  }
}

/** What templates see: what was given, and the defaults of the rest. */
export function effectiveInputs(
  app: Pick<App, 'inputs'>,
  given: { [name: string]: Json },
): { [name: string]: Json } {
  const presets = (app.inputs ?? []).flatMap(({ name, sensitive, default: preset }) =>
    sensitive || preset === undefined ? [] : [[name, preset] as const],
  )
  return { ...Object.fromEntries(presets), ...given }
}

/** Exactly the components whose templates read one of these inputs. */
export function usersOfInputs(app: App, changed: ReadonlySet<string>): string[] {
  return app.components
    .filter(({ config }) => usesOf(config).inputs.some((name) => name === '*' || changed.has(name)))
    .map(({ name }) => name)
}
