import {
  keptManifest,
  canonicalText,
  deployBehind,
  documentDigest,
  guardsOf,
  passGate,
  repeatedWith,
  stepKey,
  type ApprovalOption,
  type GateStep,
  type PlannedOperation,
  type StepKind,
} from '@tenon/core'
import { planOf, type Asked } from '@tenon/protocol'
import { sql } from 'kysely'
import type { Context } from '../context.ts'
import { sha256 } from '../crypto.ts'
import { ApiFailure } from '../errors.ts'
import type { Tx } from '../store/transaction.ts'
import { planKey } from './load.ts'

export interface RunStep extends GateStep {
  id: string
  runId: string
  position: number
  component: string | null
  asked: Asked | null
}

export async function loadSteps(tx: Tx, runIds: readonly string[]): Promise<RunStep[]> {
  const rows = await tx.db
    .selectFrom('step')
    .select(['id', 'run_id', 'position', 'key', 'kind', 'component', 'depends_on', 'status', 'asked'])
    .where(sql<boolean>`run_id = any(${runIds})`)
    .orderBy('position')
    .execute()
  return rows.map(({ run_id: runId, depends_on: dependsOn, ...rest }) => ({ ...rest, runId, dependsOn }))
}

/** Refuses a person's word that would stand for a plan, an approval or an action which a deploy must wait for. */
export async function requireGateKept(
  tx: Tx,
  runId: string,
  stepId: string,
  done: 'skipped' | 'settled as succeeded',
): Promise<void> {
  const steps = await loadSteps(tx, [runId])
  const step = steps.find(({ id }) => id === stepId)
  const deploy = step && deployBehind(step, steps)
  if (!step || deploy === undefined) return
  const again =
    done === 'skipped'
      ? `Retry the step, or leave the component out: skip ${deploy}.`
      : `Settle it as failed (\`--outcome failed\`), then retry ${step.key}: it is done anew.`
  throw new ApiFailure(
    'not_approved',
    `${step.key} cannot be ${done}: ${deploy} would run without what must come before it`,
    { remedy: again },
  )
}

/** These steps and whatever must be done again with them. What they said stays to be read until they start again. */
export async function repeatSteps(
  tx: Tx,
  runId: string,
  chosen: (step: RunStep) => boolean,
  notBefore: string | null = null,
): Promise<void> {
  const steps = await loadSteps(tx, [runId])
  reopen(tx, allRepeated(steps, chosen), notBefore)
}

export function allRepeated(steps: readonly RunStep[], chosen: (step: RunStep) => boolean): RunStep[] {
  return steps.filter(chosen).flatMap((step) => repeatedWith(step, steps))
}

export function reopen(tx: Tx, again: readonly RunStep[], notBefore: string | null = null): void {
  if (again.length === 0) return
  tx.write(sql`
    update step set status = 'pending', job_id = null, not_before = ${notBefore}::timestamptz, started_at = null,
      finished_at = null, asked = null
    where id = any(${again.map(({ id }) => id)})`)
  const ofComponents = again.filter(({ kind }) => kind === 'sync' || kind === 'plan' || kind === 'deploy')
  tx.write(sql`
    update deploy set status = 'pending', finished_at = null
    from unnest(${ofComponents.map((s) => s.runId)}::text[], ${ofComponents.map((s) => s.component)}::text[]) as s(run_id, component)
    where deploy.run_id = s.run_id and deploy.component = s.component and deploy.status <> 'succeeded'`)
}

export interface Starting {
  work: {
    run: { id: string; install_id: string }
    step: { id: string; kind: StepKind; component: string | null }
  }
  plan: { operations: PlannedOperation[] }
  subject: { install: { approval: ApprovalOption } }
}

/** Of what is about to start, all but the deploys that must wait for something once more: those go back to waiting. */
export async function throughGate<S extends Starting>(
  context: Context,
  tx: Tx,
  starting: readonly S[],
): Promise<{ through: S[]; held: S[] }> {
  const deploys = starting.filter(({ work }) => work.step.kind === 'deploy')
  if (deploys.length === 0) return { through: [...starting], held: [] }
  const runIds = [...new Set(deploys.map(({ work }) => work.run.id))]
  const [steps, plans] = await Promise.all([loadSteps(tx, runIds), loadPlanned(tx, runIds)])
  const held = new Set<S>()
  for (const one of deploys) {
    const { run, step } = one.work
    const own = steps.filter(({ runId }) => runId === run.id)
    const deploy = own.find(({ id }) => id === step.id)!
    const verdict = passGate({
      deploy,
      steps: own,
      plannedOf: plans.get(planKey(run.id, step.component!)),
      approvedOf: own.find(({ kind, component }) => kind === 'approval' && component === step.component)
        ?.asked?.digest,
      madeOf: madeOf(one.plan.operations[0]!),
      approval: one.subject.install.approval,
    })
    if (verdict.go) continue
    held.add(one)
    waitForGuards(tx, deploy, own)
    if (verdict.do === 'wait') continue
    // What it is made of now may not be in the install registry yet.
    const isSync = ({ kind, component }: RunStep) => kind === 'sync' && component === step.component
    if (verdict.do === 'repeat') reopen(tx, [...own.filter(isSync), ...repeatedWith(deploy, own)])
    else askFirst(context, tx, deploy, own)
    tx.audit(run.install_id, {
      actor: { type: 'server', id: context.serverId },
      action: verdict.do === 'repeat' ? 'step.replanned' : 'step.approval_added',
      subject: { type: 'step', id: deploy.id },
      outcome: 'ok',
      manifestDigest: null,
      details: { run: run.id, key: deploy.key, why: verdict.why },
    })
  }
  return { through: starting.filter((one) => !held.has(one)), held: [...held] }
}

/** By name, so that it is not ready again while one of them is done anew. */
function waitForGuards(tx: Tx, deploy: RunStep, steps: readonly RunStep[]): void {
  const keys = new Set([...deploy.dependsOn, ...guardsOf(deploy, steps).map(({ key }) => key)])
  tx.write(sql`update step set depends_on = ${[...keys]} where id = ${deploy.id}`)
}

/** Puts an approval before a deploy, behind its plan if it has one. */
function askFirst(context: Context, tx: Tx, deploy: RunStep, steps: readonly RunStep[]): void {
  const { runId, position, component } = deploy
  const hasPlan = guardsOf(deploy, steps).some(({ kind }) => kind === 'plan')
  const key = stepKey('approval', component)
  tx.write(sql`update step set position = position + 1 where run_id = ${runId} and position >= ${position}`)
  tx.write(
    tx.db.insertInto('step').values({
      id: context.newId('step'),
      run_id: runId,
      position,
      key,
      kind: 'approval',
      component,
      action: null,
      depends_on: [stepKey(hasPlan ? 'plan' : 'sync', component)],
      status: 'pending',
      max_auto_retries: 0,
    }),
  )
  tx.write(sql`update step set depends_on = array_append(depends_on, ${key}) where id = ${deploy.id}`)
}

/** Of what each plan of these runs was made, by `planKey`; a plan job that named no plan made none. */
async function loadPlanned(tx: Tx, runIds: readonly string[]): Promise<Map<string, string>> {
  const { rows } = await sql<{
    run_id: string
    component: string
    manifest: string
    result: { [key: string]: unknown }
  }>`
    select step.run_id, step.component, job.manifest, job.result from step join job on job.id = step.job_id
    where step.run_id = any(${runIds}) and step.kind = 'plan' and step.status = 'succeeded'`.execute(tx.db)
  return new Map(
    rows
      .filter(({ result }) => planOf(result) !== undefined)
      .map(({ run_id, component, manifest }) => [
        planKey(run_id, component),
        madeOf(keptManifest(manifest).operations[0]!),
      ]),
  )
}

/**
 * Names what a plan or a deploy applies: artifact, plugin, and all that is told to it. Every input is part of it: a
 * plugin of a vendor's own, or a script, reads also those that no template names.
 */
export function madeOf(operation: PlannedOperation): string {
  const { artifacts, plugin } = operation
  const made = { artifacts, plugin: plugin.digest, config: appliedConfig(operation) }
  return documentDigest(canonicalText(made), sha256)
}

/** Of what a job is told, what people set. */
export function appliedConfig({ config }: PlannedOperation) {
  const { component, inputs, overrides } = config
  return { component, inputs, overrides }
}
