import {
  checkInputs,
  dependentsOf,
  type InputProblem,
  triggeredActions,
  usersOfInputs,
  type App,
  type ApprovalOption,
  type Decision,
  type Json,
  changeSwitches,
  disabledComponents,
  removable,
  withDependents,
  type Switched,
  type Switches,
} from '@tenon/core'
import { sql } from 'kysely'
import { newestVersion } from '../apps/newest-version.ts'
import type { Context } from '../context.ts'
import { ApiFailure } from '../errors.ts'
import type { Decider } from '../people/actor.ts'
import { createRun } from '../runs/create.ts'
import { lockInstall } from '../store/locks.ts'
import { transact, type Tx } from '../store/transaction.ts'
import { hasDependents, requireToggles } from './switches.ts'

export interface InstallChange {
  inputs?: { [name: string]: Json } | undefined
  approval?: ApprovalOption | undefined
  toggles?: { [component: string]: boolean } | undefined
  overrides?: { [component: string]: { [key: string]: Json } } | undefined
  /** False: keep it for the next deploy. */
  deploy?: boolean | undefined
  /** What stands on a component that is switched off goes with it. */
  withDependents?: boolean | undefined
}

interface Install extends Switches {
  id: string
  name: string
  app_id: string
  inputs: { [name: string]: Json }
  overrides: { [component: string]: { [key: string]: Json } }
}

/** Stores what changed, and starts the runs that bring the install to it: exactly what uses a changed input is deployed. */
export async function updateInstall(
  context: Context,
  found: { id: string },
  change: InstallChange,
  by: Decider,
): Promise<string[]> {
  return transact(context, async (tx) => {
    const install = (await lockInstall(tx, found.id))!
    const { content: app } = await newestVersion(tx.db, install.app_id)
    const startsRuns = change.deploy !== false && install.status === 'active'
    const there = await componentsOn(tx, install.id)
    requireToggles(app, change.toggles ?? {})
    const switched = changeSwitches(app, install, change.toggles ?? {}, there)
    const { dependents } = switched
    if (dependents.length > 0 && !change.withDependents) throw hasDependents(switched)
    await requireNoneComing(tx, install.id, app, switched, there)
    const next = {
      ...withDependents(app, switched),
      inputs: changedInputsOf(app, install.inputs, change.inputs ?? {}),
      overrides: { ...install.overrides, ...change.overrides },
    }
    await tx.db
      .updateTable('install')
      .set({
        inputs: JSON.stringify(next.inputs),
        toggles: JSON.stringify(next.toggles),
        left_out: [...next.left_out],
        overrides: JSON.stringify(next.overrides),
        ...(change.approval === undefined ? {} : { approval: change.approval }),
      })
      .where('id', '=', install.id)
      .execute()
    const changedInputs = changedNames(install.inputs, next.inputs)
    const overridden = changedNames(install.overrides, next.overrides)
    tx.audit(install.id, {
      actor: by.actor,
      action: 'install.updated',
      subject: { type: 'install', id: install.id },
      outcome: 'ok',
      manifestDigest: null,
      details: {
        inputs: changedInputs,
        overrides: overridden,
        toggles: change.toggles ?? {},
        dependents,
        approval: change.approval ?? null,
      },
    })
    if (!startsRuns) return []
    const users = new Set([...usersOfInputs(app, new Set(changedInputs)), ...overridden])
    const changed = { switches: next, there, users, changedInputs }
    return startRuns(context, tx, install, app, changed, by)
  })
}

async function componentsOn(tx: Tx, installId: string): Promise<ReadonlySet<string>> {
  const rows = await tx.db
    .selectFrom('install_component')
    .select('component')
    .where('install_id', '=', installId)
    .execute()
  return new Set(rows.map((row) => row.component))
}

/** What a run has yet to deploy is not there to be removed, and would stand on nothing once it is. */
async function requireNoneComing(
  tx: Tx,
  installId: string,
  app: App,
  { turnedOff, next }: Switched,
  there: ReadonlySet<string>,
): Promise<void> {
  const isOff = disabledComponents(app, next)
  const awaited = dependentsOf(app.components, new Set(turnedOff)).filter(
    (name) => !there.has(name) && !isOff.has(name),
  )
  if (awaited.length === 0) return
  const coming = await tx.db
    .selectFrom('step')
    .innerJoin('run', 'run.id', 'step.run_id')
    .select(['run.id', 'step.component'])
    .where('run.install_id', '=', installId)
    .where('run.finished_at', 'is', null)
    .where('step.kind', '=', 'deploy')
    .where(sql<boolean>`step.status in ('pending', 'active') and step.component = any(${awaited})`)
    .executeTakeFirst()
  if (!coming) return
  const message = `run ${coming.id} is about to deploy ${coming.component}, which stands on ${turnedOff.join(', ')}`
  throw new ApiFailure('wrong_state', message, {
    remedy: `Let it end first, or cancel it: \`tenon runs cancel ${coming.id}\`.`,
  })
}

async function startRuns(
  context: Context,
  tx: Tx,
  install: Install,
  app: App,
  {
    switches,
    there,
    users: touched,
    changedInputs,
  }: {
    switches: Switches
    there: ReadonlySet<string>
    users: ReadonlySet<string>
    changedInputs: string[]
  },
  by: Decider,
): Promise<string[]> {
  const before = disabledComponents(app, install)
  const after = disabledComponents(app, switches)
  const removed = removable(app, after, there)
  const names = app.components.map(({ name }) => name)
  const wanted = names.filter(
    (name) => !after.has(name) && (before.has(name) || (touched.has(name) && there.has(name))),
  )
  const inputsChanged = changedInputs.length > 0
  const decisions: Decision[] = [
    ...(removed.length > 0 ? [{ kind: 'teardown' as const, components: removed }] : []),
    ...(wanted.length > 0 || (inputsChanged && hasInputActions(app))
      ? [{ kind: 'deploy' as const, components: wanted, inputsChanged }]
      : []),
  ]
  const runs: string[] = []
  for (const decision of decisions) {
    runs.push(await createRun(context, tx, { install, decide: () => decision, by }))
  }
  return runs
}

function hasInputActions(app: App): boolean {
  const triggers = ['pre-update-inputs', 'post-update-inputs'] as const
  return triggers.some((trigger) => triggeredActions(app, trigger, null).length > 0)
}

/** A null takes a value back to its default. What the app no longer asks for stays until somebody takes it back. */
function changedInputsOf(app: App, values: { [name: string]: Json }, changes: { [name: string]: Json }) {
  const declared = new Set((app.inputs ?? []).map(({ name }) => name))
  const isAside = (name: string) => !declared.has(name) && !Object.hasOwn(changes, name)
  const unknown = Object.keys(changes).filter(
    (name) => changes[name] === null && !declared.has(name) && !Object.hasOwn(values, name),
  )
  if (unknown.length > 0)
    throw new ApiFailure(
      'bad_request',
      `app ${app.name} has no ${unknown.length === 1 ? 'input' : 'inputs'} ${unknown.join(', ')}`,
      {
        remedy: `See what it asks for: \`tenon apps show ${app.name}\`.`,
      },
    )
  const aside = Object.entries(values).filter(([name]) => isAside(name))
  const asked = Object.entries({ ...values, ...changes }).filter(
    ([name, value]) => value !== null && !isAside(name),
  )
  return { ...Object.fromEntries(aside), ...requireInputs(app, Object.fromEntries(asked)) }
}

function changedNames(before: { [name: string]: Json }, after: { [name: string]: Json }): string[] {
  const names = new Set([...Object.keys(before), ...Object.keys(after)])
  return [...names].filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]))
}

/** Everything that is wrong with the inputs as one answer. */
export function requireInputs(app: App, given: { [name: string]: Json }): { [name: string]: Json } {
  const { values, problems } = checkInputs(app, given)
  if (problems.length === 0) return values
  throw new ApiFailure('bad_request', inputWords(problems), {
    problems: problems.map(({ input, message }) => ({ path: `inputs.${input}`, message })),
    remedy: `See what it asks for: \`tenon apps show ${app.name}\`.`,
  })
}

function inputWords(problems: readonly InputProblem[]): string {
  const missing = problems.filter((each) => each.isMissing).map(({ input }) => input)
  const wrong = problems.filter((each) => !each.isMissing).map(({ input }) => input)
  const words = [
    ...(missing.length > 0 ? [`the install needs ${namesOf(missing)}`] : []),
    ...(wrong.length > 0 ? [`${namesOf(wrong)} cannot be set so`] : []),
  ]
  return words.join(', and ')
}

function namesOf(inputs: readonly string[]): string {
  return `the ${inputs.length === 1 ? 'input' : 'inputs'} ${inputs.join(', ')}`
}
