import { isToggleable, type App, type Switched, type Toggles } from '@tenon/core'
import { ApiFailure } from '../errors.ts'

export function hasDependents({ turnedOff, dependents }: Switched): ApiFailure {
  const message = `without ${turnedOff.join(', ')} these would go too: ${dependents.join(', ')}`
  return new ApiFailure('has_dependents', message, {
    remedy: 'Remove them with it: `--with-dependents`; or keep it.',
  })
}

export function requireToggles(app: App, toggles: Toggles): void {
  const known = app.components.map(({ name }) => name)
  const unknown = Object.keys(toggles).filter((name) => !known.includes(name))
  if (unknown.length > 0)
    throw new ApiFailure('not_found', `app ${app.name} has no component ${unknown.join(', ')}`, {
      remedy: `It has: ${known.join(', ')}.`,
    })
  const wrong = Object.keys(toggles).filter((name) => !isToggleable(app, name))
  if (wrong.length === 0) return
  throw new ApiFailure('bad_request', `these components cannot be switched: ${wrong.join(', ')}`, {
    remedy: 'Set `toggleable = true` in the component, and sync the app.',
  })
}
