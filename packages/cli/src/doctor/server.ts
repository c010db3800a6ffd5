import { can, knownOr, USER_ROLES } from '@tenon/core'
import {
  ApiError,
  areTogether,
  PRODUCT_VERSION,
  VERSIONS_TOGETHER,
  type CallOutput,
  type Client,
} from '@tenon/protocol'
import { clientFor, type Cli } from '../cli.ts'
import { isLoopback } from '../config/contexts.ts'
import { describeFailure } from '../errors.ts'
import { duration, plural, until } from '../output/words.ts'
import { fail, ok, warn, type Check } from './check.ts'

const MOST_SKEW_MS = 5000
const BAD_SKEW_MS = 60_000
const SOON_MS = 7 * 86_400_000
type Info = CallOutput<'server.info'>

/** What the server and its fleet say. The first check that fails ends it, since the rest would only repeat it. */
export async function serverChecks(cli: Cli): Promise<Check[]> {
  const { io } = cli
  let url: string
  let from: string
  let client: Client
  const dates: { sent: number; got: number; date: string | null }[] = []
  try {
    const connection = await cli.connection()
    ;({ url, from } = connection)
    client = clientFor({ ...io, fetch: datedFetch(cli, dates) }, connection)
  } catch (error) {
    const { message, next } = describeFailure(error)
    return [fail('sign-in', message, next ?? 'tenon login --url URL')]
  }
  const signIn = checkTransport(url, from)
  let info: Info
  try {
    info = await client.call('server.info', {})
  } catch (error) {
    return [signIn, unreachable(url, error)]
  }
  const clock = checkClock(dates.at(-1))
  const agents = (await client.call('agents.list', { query: { limit: 200 } })).items
  const [token, jobs] = await Promise.all([checkToken(cli, client, info), checkLostJobs(client)])
  return [signIn, checkVersion(url, info), ...clock, token, checkAgents(agents), checkWalls(agents), jobs]
}

/** Notes when each answer came and what time the server said it was. */
function datedFetch(cli: Cli, dates: { sent: number; got: number; date: string | null }[]): typeof fetch {
  const { clock, fetch: send } = cli.io
  return async (input, init) => {
    const sent = clock.now()
    const response = await send(input, init)
    dates.push({ sent, got: clock.now(), date: response.headers.get('date') })
    return response
  }
}

function checkTransport(url: string, from: string): Check {
  if (url.startsWith('https:') || isLoopback(url)) return ok('sign-in', `${url} (${from})`)
  return warn(
    'sign-in',
    `${url} (${from}) is not encrypted`,
    'put TLS in front of the server and sign in with https',
  )
}

function unreachable(url: string, error: unknown): Check {
  const { message, next } = describeFailure(error)
  const name =
    error instanceof ApiError && (error.status === 401 || error.status === 403) ? 'token' : 'server'
  return fail(name, message, next ?? `check that the server at ${url} runs`)
}

function checkVersion(url: string, info: Info): Check {
  const isSame = info.version === PRODUCT_VERSION
  const words = isSame
    ? `version ${info.version}`
    : `version ${info.version}, and this CLI is ${PRODUCT_VERSION}`
  if (areTogether(PRODUCT_VERSION, info.version)) return ok('server', `${info.serverId}, ${words}`)
  const remedy = `bring both within ${VERSIONS_TOGETHER} minor versions of each other (${url})`
  return warn('server', words, remedy)
}

function checkClock(seen: { sent: number; got: number; date: string | null } | undefined): Check[] {
  if (!seen?.date || Number.isNaN(Date.parse(seen.date)))
    return [ok('clock', 'the server does not tell its time')]
  // The header has whole seconds: half of one is the best guess.
  const skew = Date.parse(seen.date) + 500 - (seen.sent + seen.got) / 2
  const words = `${duration(Math.abs(skew))} ${skew > 0 ? 'behind' : 'ahead of'} the server`
  if (Math.abs(skew) < MOST_SKEW_MS) return [ok('clock', 'agrees with the server')]
  const remedy = 'set both clocks by NTP: manifests and tokens depend on them'
  return [Math.abs(skew) < BAD_SKEW_MS ? warn('clock', words, remedy) : fail('clock', words, remedy)]
}

async function checkToken(cli: Cli, client: Client, info: Info): Promise<Check> {
  const who = `${info.you.name}, ${info.you.role}`
  const role = knownOr(USER_ROLES, info.you.role)
  if (role === 'other' || !can(role, 'administer'))
    return ok('token', `${who} (when it expires, only an owner can see)`)
  const { items } = await client.call('tokens.list', { query: { limit: 200 } })
  const token = items.find((t) => t.id === info.you.tokenId)
  if (!token) return ok('token', who)
  const now = cli.io.clock.now()
  const words = `${who}, expires ${until(token.expiresAt, now)}`
  const soon = token.expiresAt !== null && Date.parse(token.expiresAt) - now < SOON_MS
  return soon
    ? warn('token', words, 'make a new one: tenon tokens create NAME --role ROLE')
    : ok('token', words)
}

type Agents = CallOutput<'agents.list'>['items']

function checkAgents(items: Agents): Check {
  const enrolled = items.filter((agent) => agent.status === 'enrolled')
  const away = enrolled.filter((agent) => !agent.connected)
  if (away.length > 0) {
    const names = away
      .slice(0, 3)
      .map((agent) => `${nameOf(agent)} (${agent.role}, ${agent.hostname})`)
      .join(', ')
    return warn(
      'agents',
      `${plural(away.length, 'agent')} away: ${names}`,
      'check that they run and can reach the server',
    )
  }
  if (!enrolled.some((agent) => agent.role === 'build')) {
    const words = items.some((agent) => agent.role === 'build')
      ? 'no build agent is enrolled any more: those that there were are revoked or replaced'
      : 'no build agent has enrolled yet'
    return warn('agents', words, 'tenon agent join-token --role build')
  }
  return ok('agents', `${enrolled.length} connected`)
}

/** By its install, which people know, besides the id that commands take. */
function nameOf({ id, install }: Agents[number]): string {
  return install ? `${install}’s ${id}` : id
}

const MOST_WARNINGS = 5

/** What an agent said at its start that its machine cannot do; and what no machine does yet. */
function checkWalls(items: Agents): Check {
  const present = items.filter(({ status, connected }) => status === 'enrolled' && connected)
  const warnings = [...new Set(present.flatMap((agent) => agent.runtime?.warnings ?? []))]
  const told = warnings.map((warning) => {
    const whose = present.filter((agent) => agent.runtime?.warnings.includes(warning))
    const more = whose.length > 3 ? ` and ${whose.length - 3} more` : ''
    const names = whose.slice(0, 3).map((agent) => `${nameOf(agent)} (${agent.role})`)
    return `${names.join(', ')}${more}: ${warning}`
  })
  const open =
    'jobs with egress and no declared names (Terraform, scripts, actions) have the network of their machine'
  const narrow = 'declare [[egress]] in the app, or narrow jobs with TENON_JOB_NETWORKS of the agent'
  if (told.length === 0) return ok('walls', `${open}; ${narrow}`)
  return warn(
    'walls',
    `${told.slice(0, MOST_WARNINGS).join(' ')} Besides, ${open}`,
    `see \`tenon agent list --json\`; ${narrow}`,
  )
}

async function checkLostJobs(client: Client): Promise<Check> {
  const { items, next } = await client.call('jobs.list', { query: { status: 'lost', limit: 50 } })
  if (items.length === 0) return ok('jobs', 'none is lost')
  const count = next === null ? String(items.length) : `more than ${items.length}`
  return fail('jobs', `${count} lost, such as ${items[0]?.id}`, `tenon jobs why ${items[0]?.id}`)
}
