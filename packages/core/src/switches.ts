import type { App } from './app.ts'
import { dependentsOf } from './dependents.ts'

export type Toggles = { [component: string]: boolean }

export interface Switches {
  toggles: Toggles
  /** What cannot be switched and went with a component that was: it stays away for as long as that one is off. */
  left_out: readonly string[]
}

/** Pure: what the vendor made toggleable and is off, and what was removed with it. */
export function disabledComponents(app: App, { toggles, left_out: leftOut }: Switches): Set<string> {
  const off = app.components.filter(
    ({ name, settings }) =>
      settings?.toggleable === true && !(toggles[name] ?? settings.defaultEnabled ?? true),
  )
  const switched = new Set(off.map(({ name }) => name))
  const gone = dependentsOf(app.components, switched).filter((name) => leftOut.includes(name))
  return new Set([...switched, ...gone])
}

export interface Switched {
  next: Switches
  /** Is on the install, and goes since this change switches it off. */
  turnedOff: string[]
  /** Is on the install, would stay, and stands on what goes. */
  dependents: string[]
}

/** Pure: what a change of switches means where these components are there. */
export function changeSwitches(
  app: App,
  before: Switches,
  changes: Toggles,
  there: ReadonlySet<string>,
): Switched {
  const next = { ...before, toggles: { ...before.toggles, ...changes } }
  const [wasOff, isOff] = [disabledComponents(app, before), disabledComponents(app, next)]
  const turnedOff = [...isOff].filter((name) => !wasOff.has(name) && there.has(name))
  const dependents = dependentsOf(app.components, new Set(turnedOff)).filter(
    (name) => there.has(name) && !isOff.has(name),
  )
  return { next: { ...next, left_out: stillOut(app, next) }, turnedOff, dependents }
}

/** Pure: the dependents go too; those that can be switched off are. */
export function withDependents(app: App, { next, dependents }: Switched): Switches {
  const canSwitch = (name: string) => isToggleable(app, name)
  const off = Object.fromEntries(dependents.filter(canSwitch).map((name) => [name, false]))
  const others = dependents.filter((name) => !canSwitch(name))
  return { toggles: { ...next.toggles, ...off }, left_out: [...new Set([...next.left_out, ...others])] }
}

/**
 * Pure: what is there and switched off. Not what something that stays stands on: an app that switches a component off by
 * itself asks nobody.
 */
export function removable(app: App, off: ReadonlySet<string>, there: ReadonlySet<string>): string[] {
  const isFree = (name: string) =>
    dependentsOf(app.components, new Set([name])).every((other) => off.has(other) || !there.has(other))
  return [...off].filter((name) => there.has(name) && isFree(name))
}

function stillOut(app: App, switches: Switches): string[] {
  const off = disabledComponents(app, switches)
  return switches.left_out.filter((name) => off.has(name))
}

export function isToggleable(app: App, name: string): boolean {
  return app.components.find((each) => each.name === name)?.settings?.toggleable === true
}
