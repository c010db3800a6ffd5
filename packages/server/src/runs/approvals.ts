import { keptManifest, canonicalText, deployBehind, SERVER_CHAIN } from '@tenon/core'
import type { Asked } from '@tenon/protocol'
import { sql } from 'kysely'
import type { Context } from '../context.ts'
import { ApiFailure } from '../errors.ts'
import type { Tx } from '../store/transaction.ts'
import { appliedConfig, loadSteps, madeOf } from './deploy-gate.ts'
import { planJobOfStep } from './job-of-step.ts'
import { loadGround, planKey, subjectOf, type Ground, type StartingStep } from './load.ts'
import { settingsOf } from './plans-ended.ts'

/** `asked` is null where a plan is what somebody must see. */
type Opening =
  | { status: 'active'; asked: Asked | null }
  | { status: 'succeeded' | 'failed' | 'skipped'; message: string }

/** What nobody needs to see is approved at once; the others wait. Answers the runs that may go on. */
export async function startApprovals(
  context: Context,
  tx: Tx,
  waits: readonly StartingStep[],
): Promise<string[]> {
  const deploys = waits.map(({ run, step }) => ({ run, step: { ...step, kind: 'deploy' as const } }))
  const [ground, there, needed] = await Promise.all([
    loadGround(tx, deploys),
    loadThere(tx, deploys),
    loadNeeded(tx, waits),
  ])
  const over: string[] = []
  for (const deploy of deploys) {
    const { run, step } = deploy
    const opening: Opening = needed.has(step.id)
      ? openingOf(ground, deploy, there.get(`${run.install_id}/${step.component}`))
      : { status: 'skipped', message: 'its deploy is left out' }
    const isOver = opening.status !== 'active'
    await tx.db
      .updateTable('step')
      .set({
        started_at: tx.at,
        status: opening.status,
        message: isOver ? opening.message : '',
        asked: !isOver && opening.asked ? JSON.stringify(opening.asked) : null,
        finished_at: isOver ? tx.at : null,
      })
      .where('id', '=', step.id)
      .execute()
    if (isOver) over.push(run.id)
    if (opening.status !== 'succeeded') continue
    tx.audit(run.install_id ?? SERVER_CHAIN, {
      actor: { type: 'server', id: context.serverId },
      action: 'step.approved',
      subject: { type: 'step', id: step.id },
      outcome: 'ok',
      manifestDigest: null,
      details: { run: run.id, component: step.component, why: opening.message },
    })
  }
  return over
}

/** The approvals that a deploy still waits for. */
async function loadNeeded(tx: Tx, waits: readonly StartingStep[]): Promise<Set<string>> {
  const steps = await loadSteps(tx, [...new Set(waits.map(({ run }) => run.id))])
  const needed = waits.filter(({ run, step: { id } }) => {
    const own = steps.filter(({ runId }) => runId === run.id)
    return (
      deployBehind(
        own.find((each) => each.id === id)!,
        own,
      ) !== undefined
    )
  })
  return new Set(needed.map(({ step }) => step.id))
}

/** The last deploy that ended well. */
interface There {
  artifact_digest: string
  manifest: string
}

/** What of these components is on their installs now, as far as it is known to be there. */
async function loadThere(tx: Tx, deploys: readonly StartingStep[]): Promise<Map<string, There>> {
  const { rows } = await sql<There & { install_id: string; component: string }>`
    select c.install_id, c.component, good.artifact_digest, good.manifest
    from unnest(${deploys.map(({ run }) => run.install_id)}::text[], ${deploys.map(({ step }) => step.component)}::text[])
      as d(install_id, component)
    join install_component as c on c.install_id = d.install_id and c.component = d.component
    cross join lateral (
      select deploy.artifact_digest, job.manifest from deploy
      join step on step.run_id = deploy.run_id and step.component = deploy.component and step.kind = 'deploy'
      join job on job.id = step.job_id
      where deploy.install_id = c.install_id and deploy.component = c.component and deploy.status = 'succeeded'
      order by deploy.id desc limit 1
    ) as good
    where c.deployed_at is not null`.execute(tx.db)
  return new Map(rows.map((row) => [`${row.install_id}/${row.component}`, row]))
}

function openingOf(ground: Ground, deploy: StartingStep, there: There | undefined): Opening {
  const { run, step } = deploy
  const plan = ground.plans.get(planKey(run.id, step.component!))
  if (!plan) return askAbout(ground, deploy, there)
  if (!plan.hasChanges) return { status: 'succeeded', message: 'nothing changes' }
  const { content } = ground.versions.get(run.app_version_id)!
  const isTrusted = settingsOf(content, step.component!)?.autoApproveOnPoliciesPassing === true
  return isTrusted && plan.findings.length === 0
    ? { status: 'succeeded', message: 'all policies pass' }
    : { status: 'active', asked: null }
}

/** Without a plan nothing was looked at, so somebody is always asked. */
function askAbout(ground: Ground, deploy: StartingStep, there: There | undefined): Opening {
  try {
    const subject = subjectOf(ground, deploy)
    const operation = planJobOfStep(ground.plugins, subject).operations[0]!
    const asked: Asked = {
      digest: madeOf(operation),
      artifact: subject.artifact!,
      replaces: there?.artifact_digest ?? null,
      configChanges: configOf(there) !== canonicalText(appliedConfig(operation)),
    }
    return { status: 'active', asked }
  } catch (error) {
    if (!(error instanceof ApiFailure)) throw error
    return { status: 'failed', message: error.message }
  }
}

function configOf(there: There | undefined): string | undefined {
  const [operation] = there ? keptManifest(there.manifest).operations : []
  return operation && canonicalText(appliedConfig(operation))
}
