import { nearest, usesOf, type App, type Json } from '@tenon/core'
import { inputSecretName } from '@tenon/protocol'
import { ApiFailure } from '../errors.ts'

/** A value under a name that nothing reads would lie there unseen, and what needs it would go on missing it. */
export function requireSecretName(app: App, overrides: { [component: string]: Json }, name: string): void {
  const known = secretNames(app, overrides)
  if (known.includes(name)) return
  const near = nearest(name, known)
  const read = known.length === 0 ? 'It reads none.' : `It reads ${known.slice(0, 30).join(', ')}.`
  throw new ApiFailure('not_found', `app ${app.name} has no secret ${name}`, {
    remedy: `${near === undefined ? read : `Did you mean ${near}?`} Declare others in secrets.toml, and sync the app.`,
  })
}

/** Everything that some job of the app may ask for. */
function secretNames(app: App, overrides: { [component: string]: Json }): string[] {
  const configs: Json[] = [...app.components.map(({ config }) => config), overrides]
  const steps = (app.actions ?? []).map(({ steps: all }) => all as unknown as Json)
  const used = [...configs, ...steps].flatMap((config) => usesOf(config).secrets)
  return [
    ...new Set([
      ...(app.secrets ?? []).map(({ name }) => name),
      ...app.components.flatMap(({ config }) => textsOf(config['secrets'])),
      ...used.filter((name) => name !== '*'),
      ...(app.inputs ?? []).filter(({ sensitive }) => sensitive).map(({ name }) => inputSecretName(name)),
    ]),
  ]
}

function textsOf(value: Json | undefined): string[] {
  return Array.isArray(value) ? value.filter((each) => typeof each === 'string') : []
}
