import { sizeWords } from '@tenon/core'
import type { AgentStatus } from '../owner-access.ts'
import { withAgent } from '../with-agent.ts'
import { DIR, folderOf, JSON_FLAG, print, type Command } from './command.ts'

export const status: Command = {
  words: 'status',
  summary: 'who the agent is, what it does, and what waits for the server',
  options: { ...DIR, ...JSON_FLAG },
  examples: ['tenon agent status --dir ./agent', 'tenon agent status --dir ./agent --json'],
  async run(input) {
    const found = await withAgent(folderOf(status, input), (agent) => agent.status())
    print(input.io, ...(input.flag('json') ? [JSON.stringify(found, null, 2)] : statusLines(found)))
  },
}

/** Pure. */
export function statusLines(found: AgentStatus): string[] {
  const { outbox, runtime, auditHead } = found
  const rows: [string, string][] = [
    ['agent', `${found.agentId} (${found.role})`],
    ['install', found.installId ?? 'none'],
    ['own key', found.key],
    ['server', `${found.server.url ?? 'address unknown'} (${found.server.id})`],
    ['state', stateWords(found)],
    ['new jobs', found.pausedSince === null ? 'started' : `held: paused since ${found.pausedSince}`],
    ['runtime', runtime ? `${runtime.name}: ${runtime.confinement}` : 'unknown'],
    ...(runtime?.warnings ?? []).map((warning): [string, string] => ['', `warning: ${warning}`]),
    ['jobs', found.jobs.length === 0 ? 'none' : `${found.jobs.length} held`],
    ...found.jobs.map((job): [string, string] => ['', jobWords(job)]),
    ['outbox', `${outbox.events} events, ${outbox.results} results${logWords(outbox.logBytes)}`],
    ['dropped', `${sizeWords(outbox.droppedBytes)} of logs`],
    [
      'audit',
      auditHead ? `${auditHead.chain} up to ${auditHead.seq}, ${auditHead.hash}` : 'no head kept yet',
    ],
    ...found.pinnedKeys.map(({ keyId, fingerprint }, index): [string, string] => [
      index === 0 ? 'keys' : '',
      `${keyId} ${fingerprint}`,
    ]),
  ]
  return rows.map(([title, value]) => `${title.padEnd(10)}${value}`)
}

function stateWords({ running, pid, connectedSince, slots, startedAt }: AgentStatus): string {
  if (!running) return startedAt ? `stopped; last started ${startedAt}` : 'stopped'
  if (!slots) return `process ${pid} runs but does not answer yet`
  const connection = connectedSince ? `connected since ${connectedSince}` : 'not connected to the server'
  return `runs as process ${pid}, ${connection}, ${slots.used} of ${slots.total} slots used`
}

function jobWords({
  jobId,
  kind,
  component,
  state,
  startedAt,
  stopping,
}: AgentStatus['jobs'][number]): string {
  const what = [kind ?? 'unknown kind', component].filter(Boolean).join(' ')
  const since = startedAt ? ` since ${startedAt}` : ''
  return `${jobId}  ${what}  ${stopping ? 'stopping' : state}${since}`
}

function logWords(bytes: number | null): string {
  return bytes === null ? '' : `, ${sizeWords(bytes)} of logs`
}
