import type { Command } from '@commander-js/extra-typings'
import type { Client } from '@tenon/protocol'
import type { Cli } from '../cli.ts'
import { CliError } from '../errors.ts'
import { EXIT } from '../exit-codes.ts'
import { followLog } from '../follow/follow-log.ts'
import { examples } from '../help-text.ts'
import { createLogFilter, plain } from '../output/clean.ts'
import { idOf } from './ids.ts'

export function addLogs(program: Command, cli: Cli): void {
  program
    .command('logs')
    .description('the log of a job, or of the newest job of an install, a component or a build')
    .argument('<target>', 'a job’s id, a build’s id, or an install’s name or id')
    .argument('[component]', 'of an install: the newest job of this component')
    .option('-f, --follow', 'go on until the job ends')
    .addHelpText(
      'after',
      examples('tenon logs job_01…', 'tenon logs acme web -f', 'tenon logs acme --json | jq -r .text'),
    )
    .action((target, component, options) => logs(cli, target, component, options.follow === true))
}

async function logs(cli: Cli, target: string, component: string | undefined, follow: boolean): Promise<void> {
  const { io, out } = cli
  const client = await cli.client()
  const jobId = await findJob(client, target, component)
  if (jobId !== target) out.note(`job ${jobId}`)
  const stop = new AbortController()
  const off = io.onSignal('SIGINT', () => stop.abort())
  const sink = createSink(cli)
  let printed = false
  try {
    await followLog(jobId, follow, {
      client,
      clock: io.clock,
      signal: AbortSignal.any([stop.signal, cli.closed]),
      onBytes: (bytes, offset) => {
        printed = true
        return sink.push(bytes, offset)
      },
      onAway: () => out.note('the connection is away; reconnecting'),
    })
    await sink.end()
    if (stop.signal.aborted) cli.exitCode = EXIT.interrupted
    else if (!printed) await explainSilence(cli, client, jobId)
  } finally {
    off()
  }
}

async function findJob(client: Client, target: string, component: string | undefined): Promise<string> {
  if (target.startsWith('job_')) return idOf('job', target)
  if (target.startsWith('bld_')) {
    const build = await client.call('builds.get', { params: { id: idOf('build', target) } })
    if (build.jobId !== null) return build.jobId
    throw new CliError(EXIT.notFound, `build ${target} has no job yet`, {
      next: `tenon builds show ${target}`,
    })
  }
  const found = await newestJob(client, target, component)
  if (found !== undefined) return found
  const what = component === undefined ? target : `component ${component} of ${target}`
  const names = component === undefined ? [] : await componentsOf(client, target)
  const next =
    component === undefined || names.includes(component)
      ? `tenon runs list --install ${target}`
      : `what is there: ${names.join(', ') || 'nothing'}`
  throw new CliError(EXIT.notFound, `there is no job of ${what} yet`, { next })
}

/** Of the app, and what it dropped and the install still has. */
async function componentsOf(client: Client, install: string): Promise<string[]> {
  const { app, components } = await client.call('installs.get', { params: { ref: install } })
  const { components: own } = await client.call('apps.get', { params: { ref: app } })
  return [...new Set([...own, ...components].map(({ name }) => name))]
}

async function newestJob(
  client: Client,
  install: string,
  component: string | undefined,
): Promise<string | undefined> {
  const about = component === undefined ? {} : { component }
  const { items } = await client.call('jobs.list', { query: { install, ...about, limit: 1 } })
  return items[0]?.id
}

/** A job without a log has a reason for it, which nobody should have to look for. */
async function explainSilence(cli: Cli, client: Client, jobId: string): Promise<void> {
  const job = await client.call('jobs.get', { params: { id: jobId } })
  const why = [job.reason === null || job.reason === 'completed' ? '' : ` (${job.reason})`, job.message]
  const said = why[1] ? `${why[0]}: ${plain(why[1])}` : why[0]
  cli.out.note(`job ${jobId} has printed nothing: it is ${job.status}${said}`)
  if (job.waiting !== null) cli.out.note(`it waits: ${plain(job.waiting.message)}`)
}

interface Sink {
  push(bytes: Uint8Array, offset: number): Promise<void>
  end(): Promise<void>
}

/** Exact bytes into a pipe, cleaned text to a terminal, a line of JSON for each line with `--json`. */
function createSink({ io, out, globals }: Cli): Sink {
  if (globals.json) return createJsonSink((line) => out.raw(line))
  if (!io.stdout.isTTY) return { push: (bytes) => out.raw(bytes), end: () => Promise.resolve() }
  const filter = createLogFilter()
  return { push: (bytes) => out.raw(filter.push(bytes)), end: () => out.raw(filter.end()) }
}

/** A line longer than this is given in parts, so that memory stays bounded. */
const LONGEST_LINE = 1024 * 1024

function createJsonSink(write: (line: string) => Promise<void>): Sink {
  let rest = Buffer.alloc(0)
  let restOffset = 0
  const give = async (length: number, skip: number) => {
    const text = rest.subarray(0, length).toString()
    await write(`${JSON.stringify({ offset: restOffset, text })}\n`)
    rest = rest.subarray(length + skip)
    restOffset += length + skip
  }
  return {
    async push(bytes, offset) {
      if (rest.length === 0) restOffset = offset
      rest = Buffer.concat([rest, bytes])
      for (let at = rest.indexOf(10); at >= 0; at = rest.indexOf(10)) await give(at, 1)
      if (rest.length > LONGEST_LINE) await give(rest.length, 0)
    },
    async end() {
      if (rest.length > 0) await give(rest.length, 0)
    },
  }
}
