import type { Command } from '@commander-js/extra-typings'
import type { Cli } from '../cli.ts'
import { EXIT } from '../exit-codes.ts'
import { explainFailure, followRun } from '../follow/follow-run.ts'
import { renderRun } from '../follow/render-run.ts'
import { watchRun } from '../follow/watch-run.ts'
import { examples } from '../help-text.ts'
import { paintStatus } from '../output/paint.ts'
import { ago, between } from '../output/words.ts'
import { addStepCommands } from './runs-steps.ts'
import { AFTER, LIMIT, pageQuery, showPage, type PageOptions } from './paging.ts'
import { takeId } from './ids.ts'

export function addRuns(program: Command, cli: Cli): void {
  const runs = program
    .command('runs')
    .description('what decisions made happen on installs, step by step')
    .addHelpText('after', examples('tenon runs list', 'tenon runs watch run_01…'))
  runs
    .command('list')
    .description('list runs, newest first')
    .option('--install <install>', 'only those on this install')
    .option(...LIMIT)
    .option(...AFTER)
    .addHelpText('after', examples('tenon runs list', 'tenon runs list --install acme --limit 5'))
    .action((options) => list(cli, options))
  runs
    .command('show')
    .description('one run with its steps, and what it waits for')
    .argument('<run>', 'its id', takeId('run'))
    .addHelpText('after', examples('tenon runs show run_01…'))
    .action((id) => show(cli, id))
  runs
    .command('watch')
    .description('follow a run until it ends; with --json one line for each change')
    .argument('<run>', 'its id', takeId('run'))
    .addHelpText(
      'after',
      examples('tenon runs watch run_01…', 'tenon runs watch run_01… --json | jq .status'),
    )
    .action((id) => watch(cli, id))
  runs
    .command('cancel')
    .description('cancel a run: nothing new starts, what runs is stopped')
    .argument('<run>', 'its id', takeId('run'))
    .addHelpText('after', examples('tenon runs cancel run_01…'))
    .action(async (id) => {
      const client = await cli.client()
      const run = await client.call('runs.cancel', { params: { id } })
      if (cli.globals.json) return cli.out.json(run)
      cli.out.line(`run ${run.id} is ${run.status === 'canceled' ? 'canceled' : 'being canceled'}`)
    })
  addStepCommands(runs as unknown as Command, cli)
}

async function list(cli: Cli, options: PageOptions & { install?: string | undefined }): Promise<void> {
  const client = await cli.client()
  const install = options.install === undefined ? {} : { install: options.install }
  const page = await client.call('runs.list', { query: { ...pageQuery(options), ...install } })
  const now = cli.io.clock.now()
  showPage(
    cli,
    page,
    [
      { title: 'ID', value: (r) => r.id },
      { title: 'KIND', value: (r) => r.kind },
      { title: 'INSTALL', value: (r) => r.install, shrink: true },
      {
        title: 'STATUS',
        value: (r) => r.status,
        paint: (text, r) => paintStatus(cli.out.paint, r.status, text),
      },
      {
        title: 'STEPS',
        value: (r) => `${r.steps.filter((s) => s.finishedAt !== null).length}/${r.steps.length}`,
      },
      { title: 'TOOK', value: (r) => between(r.createdAt, r.finishedAt, now) },
      { title: 'STARTED', value: (r) => ago(r.createdAt, now) },
    ],
    'no runs yet; next: tenon deploy INSTALL',
  )
}

async function show(cli: Cli, id: string): Promise<void> {
  const { out, io } = cli
  const client = await cli.client()
  const run = await client.call('runs.get', { params: { id } })
  if (cli.globals.json) return out.json(run)
  for (const line of renderRun(run, { paint: out.paint, now: io.clock.now(), width: out.width }))
    out.line(line)
  if (run.status === 'failed') await explainFailure(cli, client, run)
}

async function watch(cli: Cli, id: string): Promise<void> {
  const client = await cli.client()
  if (!cli.globals.json) return followRun(cli, client, await client.call('runs.get', { params: { id } }))
  const stop = new AbortController()
  const off = cli.io.onSignal('SIGINT', () => stop.abort())
  try {
    const ended = await watchRun(id, {
      client,
      clock: cli.io.clock,
      signal: AbortSignal.any([stop.signal, cli.closed]),
      onRun: (run) => cli.out.line(JSON.stringify(run)),
      onAway: () => cli.out.note('the connection is away; reconnecting'),
    })
    if (!ended) cli.exitCode = EXIT.interrupted
    else if (ended.status !== 'succeeded') cli.exitCode = EXIT.failed
  } finally {
    off()
  }
}
