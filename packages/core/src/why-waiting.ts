import { laneOf, nameHolders } from './capacity.ts'
import { describeLack, lacking, type Requirement } from './features.ts'
import type { AgentRole, JobKind, JobStatus, RunStatus } from './states.ts'

/** The facts that decide what a queued job, step or run waits for; gathered by the store, judged here. */
export interface JobFacts {
  status: JobStatus
  createdAt: string
  assignedAt: string | null
  leaseUntil: string | null
  cancelRequestedAt: string | null
  target: { role: AgentRole; installId: string | null; install: string | null }
  kind: JobKind
  /** Of one that its agent holds. */
  hold: { reason: string; until: string | null; since: string; startBefore: string } | null
  /** What the agent says about a job that it has and did not start yet. */
  said: string | null
  /** What an agent must be able to do for it. */
  requires: Requirement[]
  agents: {
    id: string
    connected: boolean
    lastSeenAt: string | null
    slots: number
    /** Besides `slots`, for what people wait for; 0 where it makes no difference. */
    interactiveSlots: number
    /** Null: it has not said what it can do, which counts as all. */
    features: string[] | null
    holding: { jobId: string; kind: JobKind }[]
  }[]
  /** Agents of the kind that were revoked or replaced. */
  formerAgents: number
  /** Queued jobs of the same agent that come first. */
  ahead: number
}

export interface Waiting {
  /** A word for programs. */
  code: string
  /** A sentence for people. */
  message: string
  since: string
  /** What somebody can do about it, if anything. */
  remedy: string | null
}

export function whyJobWaits(job: JobFacts): Waiting | undefined {
  if (job.status === 'queued') return whyQueued(job)
  if (job.status === 'assigned') {
    const since = job.assignedAt ?? job.createdAt
    if (job.said === null) return waiting('agent_starting', 'The agent has it and is starting it.', since)
    return waiting(
      'agent_capacity',
      `The agent has it, but: ${job.said}.`,
      since,
      'It starts when one of these ends; TENON_JOBS_MEMORY_BYTES and TENON_JOBS_CPUS say what an agent gives to jobs.',
    )
  }
  if (job.status === 'held' && job.hold) return whyHeld(job, job.hold)
  if (job.status === 'running' && job.cancelRequestedAt) {
    return waiting('canceling', 'It was asked to stop and has not ended yet.', job.cancelRequestedAt)
  }
  if (job.status === 'lost') {
    return waiting(
      'lost',
      `Its agent has not been heard of since its lease ran out at ${job.leaseUntil ?? 'an unknown time'}; whether it still runs is unknown.`,
      job.leaseUntil ?? job.createdAt,
      'Bring the agent back and it settles by itself, or settle it by hand with `tenon jobs settle`.',
    )
  }
  return undefined
}

function whyHeld(
  { cancelRequestedAt, agents }: JobFacts,
  { reason, until, since, startBefore }: NonNullable<JobFacts['hold']>,
): Waiting {
  if (cancelRequestedAt !== null) {
    const isConnected = agents.some(({ connected }) => connected)
    return waiting(
      'canceling',
      `It was asked not to start; the customer's agent, which holds it, ${isConnected ? 'has not answered yet' : 'is not connected'}.`,
      cancelRequestedAt,
      isConnected
        ? null
        : `It ends when its agent is back, at ${startBefore} at the latest; or settle it by hand: \`tenon jobs settle\`.`,
    )
  }
  const when = until === null ? '' : ` It may start at ${until}.`
  return waiting(
    'held',
    `The customer's agent holds it: ${reason}.${when}`,
    since,
    `Nothing fails: it starts by itself when the customer lets it, until ${startBefore}; after that it is asked anew. Or cancel it.`,
  )
}

function whyQueued(job: JobFacts): Waiting {
  const who = job.target.installId
    ? `the agent of install ${job.target.install ?? job.target.installId}`
    : `a ${job.target.role} agent`
  if (job.agents.length === 0) {
    const all =
      job.formerAgents === 1 ? 'the one that there was is' : `all ${job.formerAgents} that there were are`
    const message =
      job.formerAgents === 0
        ? `No agent has enrolled yet: it needs ${who}.`
        : `No agent is enrolled any more: it needs ${who}, and ${all} revoked or replaced.`
    return waiting(
      'no_agent',
      message,
      job.createdAt,
      `Start one with a token of \`${joinCommand(job.target)}\`.`,
    )
  }
  const connected = job.agents.filter((a) => a.connected)
  if (connected.length === 0) {
    const seen = job.agents
      .map((a) => a.lastSeenAt)
      .filter((at) => at !== null)
      .toSorted()
      .at(-1)
    return waiting(
      'agent_away',
      `It needs ${who}, which is not connected${seen ? ` (last seen ${seen})` : ''}.`,
      seen ?? job.createdAt,
      'Check that the agent runs and can reach the server.',
    )
  }
  const lacks = connected.map(({ features }) => lacking(job.requires, features ?? namesOf(job.requires)))
  if (lacks.every((lack) => lack.length > 0)) {
    const least = lacks.toSorted((a, b) => a.length - b.length)[0]!
    return waiting(
      'agent_too_old',
      `No connected agent can do it: ${describeLack(least)}.`,
      job.createdAt,
      `Update ${who}.`,
    )
  }
  const able = connected.filter((_, index) => lacks[index]!.length === 0)
  const shares = able.map((agent) => shareFor(job.kind, agent))
  if (shares.every(({ slots, holding }) => holding.length >= slots)) {
    const slots = shares.reduce((sum, share) => sum + share.slots, 0)
    const holding = shares.flatMap((share) => share.holding)
    const by = holding.length > 0 ? ` with ${nameHolders(holding)}` : ''
    return waiting(
      'no_free_slot',
      `All ${slots} slots of ${who} are busy${by}; ${aheadWords(job.ahead)}.`,
      job.createdAt,
      'It starts when one of these ends, or start the agent with more slots.',
    )
  }
  const turn =
    job.ahead === 0 ? `It is next in line for ${who}` : `It waits for ${who}; ${aheadWords(job.ahead)}`
  return waiting('dispatching', `${turn}.`, job.createdAt)
}

function joinCommand({ role, installId, install }: JobFacts['target']): string {
  return installId === null
    ? `tenon agent join-token --role ${role}`
    : `tenon installs join-token ${install ?? installId}`
}

function namesOf(requires: readonly Requirement[]): string[] {
  return requires.map(({ feature }) => feature)
}

function aheadWords(ahead: number): string {
  if (ahead === 0) return 'it is the next'
  return ahead === 1 ? 'one job is ahead' : `${ahead} jobs are ahead`
}

function shareFor(kind: JobKind, { slots, interactiveSlots, holding }: JobFacts['agents'][number]) {
  if (interactiveSlots === 0) return { slots, holding }
  const lane = laneOf(kind)
  const sameLane = holding.filter((job) => laneOf(job.kind) === lane)
  return { slots: lane === 'interactive' ? interactiveSlots : slots, holding: sameLane }
}

export interface RunFacts {
  id: string
  status: RunStatus
  createdAt: string
  /** The active run on the same install that must end first. */
  blockedBy: { runId: string; kind: string } | null
  activeSteps: {
    key: string
    kind: string
    component: string | null
    since: string
    job: Waiting | undefined
  }[]
  /** Steps that failed, `since` then, and are tried again by themselves. */
  retries: { key: string; attempts: number; notBefore: string; since: string; message: string }[]
}

export function whyRunWaits(run: RunFacts): Waiting[] {
  if (run.status === 'queued') {
    if (!run.blockedBy) return [waiting('starting', 'It is about to start.', run.createdAt)]
    const { runId, kind } = run.blockedBy
    return [
      waiting(
        'run_ahead',
        `The ${kind} run ${runId} on the same install must end first.`,
        run.createdAt,
        `See it with \`tenon runs show ${runId}\`.`,
      ),
    ]
  }
  if (run.status !== 'active') return []
  const retries = run.retries.map(({ key, attempts, notBefore, since, message }) =>
    waiting(
      'retrying',
      `${key} failed ${attempts === 1 ? 'once' : `${attempts} times`} (${message}) and is tried again at ${notBefore}.`,
      since,
      `Nothing, or stop it: \`tenon runs cancel ${run.id}\`.`,
    ),
  )
  return [...run.activeSteps.flatMap((step) => whyStepWaits(run.id, step)), ...retries]
}

function whyStepWaits(runId: string, step: RunFacts['activeSteps'][number]): Waiting[] {
  if (step.kind === 'approval') {
    const what = `${runId} ${step.component ?? 'COMPONENT'}`
    return [
      waiting(
        'approval',
        `${step.key}: somebody must approve it.`,
        step.since,
        `Look at it and decide: \`tenon runs approve ${what}\` or \`tenon runs reject ${what} --reason …\`.`,
      ),
    ]
  }

  if (step.kind === 'agent') {
    return [
      waiting(
        'agent_enrolling',
        'The install agent has not connected yet.',
        step.since,
        'Look at the sandbox step’s log; without a sandbox, start the agent with a token of `tenon installs join-token`.',
      ),
    ]
  }
  return step.job ? [{ ...step.job, message: `${step.key}: ${step.job.message}` }] : []
}

function waiting(code: string, message: string, since: string, remedy: string | null = null): Waiting {
  return { code, message, since, remedy }
}
