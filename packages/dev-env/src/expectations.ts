import { parseEntry, type AuditEntry } from '@tenon/core'
import type { ExpectedJob, Scenario } from './scenario.ts'
import type { Job, Stage } from './stage.ts'
import { startsOf } from './starts.ts'
import { until } from './until.ts'

/** Everything a scenario says must be so in the end; the first that is not is named. */
export async function checkExpectations(stage: Stage, expected: Scenario['expect']): Promise<void> {
  await stage.untilRun(expected.run)
  for (const [step, job] of Object.entries(expected.jobs)) await checkJob(stage, step, job)
  await checkAudit(stage, expected.audit ?? {})
  await checkAgents(stage, expected.exits ?? {})
}

async function checkJob(stage: Stage, step: string, expected: ExpectedJob): Promise<void> {
  const job = await stage.job(step)
  if (!job) throw new Error(`${step} has no job`)
  const { status, reason, exitCode, fence } = expected
  const differs = (name: keyof Job, wanted: unknown) => {
    if (wanted !== undefined && job[name] !== wanted)
      throw new Error(
        `${step}: ${name} is ${JSON.stringify(job[name])} (${job.message}), not ${JSON.stringify(wanted)}`,
      )
  }
  differs('status', status)
  differs('reason', reason)
  differs('exitCode', exitCode)
  differs('fence', fence)
  if (expected.message && !expected.message.test(job.message))
    throw new Error(`${step}: its message is "${job.message}"`)
  if (expected.log !== undefined) {
    const log = await stage.log(job.id)
    if (log !== expected.log)
      throw new Error(`${step}: its log is ${JSON.stringify(log)}, not ${JSON.stringify(expected.log)}`)
  }
  if (expected.starts === undefined) return
  const starts = startsOf(stage.dir).filter((start) => start.jobId === job.id).length
  if (starts !== expected.starts) throw new Error(`${step}: started ${starts} times, not ${expected.starts}`)
}

/** The server's own chain is sealed a moment after the fact. */
async function checkAudit(stage: Stage, audit: { has?: string[]; hasNot?: string[] }): Promise<void> {
  for (const action of audit.has ?? []) {
    await until(
      `an audit entry ${action}`,
      async () => (await auditOf(stage)).some((e) => e.action === action),
      5,
    )
  }
  const entries = await auditOf(stage)
  const wrong = audit.hasNot?.find((action) => entries.some((entry) => entry.action === action))
  if (wrong) throw new Error(`there is an audit entry ${wrong}`)
}

/** All entries of all chains. */
export async function auditOf(stage: Stage): Promise<AuditEntry[]> {
  const { chains } = await stage.client.call('audit.chains', {})
  const entries: AuditEntry[] = []
  for (const { chain } of chains) {
    let afterSeq = 0
    for (;;) {
      const page = await stage.client.call('audit.entries', {
        params: { chain },
        query: { afterSeq, limit: 1000 },
      })
      if (page.entries.length === 0) break
      for (const { body } of page.entries) entries.push(parseEntry(body)!)
      afterSeq = page.entries.at(-1)!.seq
    }
  }
  return entries
}

async function checkAgents(stage: Stage, exits: Record<string, number>): Promise<void> {
  for (const [name, program] of stage.agents) {
    const code = await Promise.race([program.exited, Promise.resolve(undefined)])
    if (code !== exits[name])
      throw new Error(
        `the agent ${name} ${code === undefined ? 'still runs' : `ended with ${code}`}, not ${exits[name] ?? 'running on'}`,
      )
  }
}
