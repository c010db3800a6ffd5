import type { Command } from '@commander-js/extra-typings'
import type { Client, RunView } from '@tenon/protocol'
import type { Cli } from '../cli.ts'
import { CliError, usageError } from '../errors.ts'
import { EXIT } from '../exit-codes.ts'
import { followRun } from '../follow/follow-run.ts'
import { stepsToName } from '../follow/render-run.ts'
import { showStarted } from '../follow/show-started.ts'
import { examples } from '../help-text.ts'
import { plain } from '../output/clean.ts'
import { renderAhead } from '../output/render-plan.ts'
import { confirm } from '../secrets/read-value.ts'
import { aheadOf, type Ahead } from '../follow/ahead-of.ts'
import { takeId } from './ids.ts'

/** What a person decides about one step of a run. */
export function addStepCommands(runs: Command, cli: Cli): void {
  stepCommand(runs, cli, 'retry', 'run a failed or canceled step again, and follow the run', 'steps.retry')
  stepCommand(runs, cli, 'skip', 'go on without a step that waits or has failed', 'steps.skip')
  stepCommand(runs, cli, 'cancel-step', 'cancel one step; what does not depend on it goes on', 'steps.cancel')
  runs
    .command('plan')
    .description('what a deploy would change, or where its type makes no plan what would be deployed')
    .argument('<run>', 'the run’s id', takeId('run'))
    .argument('<component>', 'of which component')
    .addHelpText('after', examples('tenon runs plan run_01… web'))
    .action(async (id, component) => {
      const client = await cli.client()
      const ahead = await aheadOf(client, await client.call('runs.get', { params: { id } }), component)
      if (cli.globals.json) return cli.out.json(ahead)
      for (const line of renderAhead(ahead, cli.out.paint)) cli.out.line(line)
    })
  runs
    .command('approve')
    .description('approve the deploy of a component: its plan, or where it makes none what would be deployed')
    .argument('<run>', 'the run’s id', takeId('run'))
    .argument('[component]', 'of which component')
    .option('--all', 'all that wait for it now')
    .option('--yes', 'do not ask')
    .option('--detach', 'do not follow the run')
    .addHelpText(
      'after',
      examples(
        'tenon runs approve run_01… web',
        'tenon runs approve run_01… web --yes',
        'tenon runs approve run_01… --all',
      ),
    )
    .action((id, component, options) => approve(cli, id, component, options))
  runs
    .command('reject')
    .description('reject the deploy of a component: it is left as it is')
    .argument('<run>', 'the run’s id', takeId('run'))
    .argument('<component>', 'of which component')
    .requiredOption('--reason <text>', 'why, for the audit')
    .option('--detach', 'do not follow the run')
    .addHelpText('after', examples('tenon runs reject run_01… web --reason "not during the sale"'))
    .action(async (id, component, { reason, detach }) => {
      const client = await cli.client()
      const step = findStep(await client.call('runs.get', { params: { id } }), `approval:${component}`)
      const run = await client.call('steps.reject', { params: { id, step: step.id }, body: { reason } })
      if (cli.globals.json && (detach || run.finishedAt !== null)) return cli.out.json(run)
      cli.out.line(`the deploy of ${component} is rejected; the run is ${run.status}`)
      if (!detach && run.finishedAt === null) await followRun(cli, client, run)
    })
}

interface ApproveOptions {
  all?: true | undefined
  yes?: true | undefined
  detach?: true | undefined
}

/** Each by the digest of what was shown: what comes to wait while somebody reads is not approved with it. */
async function approve(
  cli: Cli,
  id: string,
  component: string | undefined,
  options: ApproveOptions,
): Promise<void> {
  if ((component === undefined) === (options.all !== true))
    throw usageError('name the component to approve, or --all', `see what waits: tenon runs show ${id}`)
  const client = await cli.client()
  const run = await client.call('runs.get', { params: { id } })
  const steps = component === undefined ? waitingApprovals(run) : [findStep(run, `approval:${component}`)]
  const asked: { step: RunView['steps'][number]; of: string; ahead: Ahead }[] = []
  for (const step of steps) {
    const of = step.component ?? step.key.replace('approval:', '')
    const ahead = await aheadOf(client, run, of)
    asked.push({ step, of, ahead })
    if (cli.globals.json) continue
    if (component === undefined) cli.out.note(`${of}:`)
    for (const line of renderAhead(ahead, cli.out.notePaint)) cli.out.note(line)
    if (step.askedBy !== null) cli.out.note(`asked for by ${plain(step.askedBy.name)}`)
  }
  const names = asked.map(({ of }) => of).join(', ')
  await confirm(cli.io, `deploy this ${names} to ${run.install}`, options.yes === true)
  let next = run
  for (const { step, ahead } of asked)
    next = await client.call('steps.approve', {
      params: { id, step: step.id },
      body: { digest: ahead.digest },
    })
  await showStarted(cli, client, next, options.detach === true)
}

function waitingApprovals(run: RunView): RunView['steps'] {
  const waiting = run.steps.filter(({ kind, status }) => kind === 'approval' && status === 'active')
  if (waiting.length > 0) return waiting
  throw new CliError(EXIT.notFound, 'nothing in this run waits for an approval', {
    next: `tenon runs show ${run.id}`,
  })
}

function stepCommand(
  runs: Command,
  cli: Cli,
  name: string,
  description: string,
  route: 'steps.retry' | 'steps.skip' | 'steps.cancel',
): void {
  runs
    .command(name)
    .description(description)
    .argument('<run>', 'the run’s id', takeId('run'))
    .argument('<step>', 'the step’s id or key, such as deploy:web')
    .option('--detach', 'do not follow it')
    .addHelpText('after', examples(`tenon runs ${name} run_01… deploy:web`))
    .action(async (id, given, options) => {
      const client = await cli.client()
      const run = await client.call(route, { params: { id, step: await stepId(client, id, given) } })
      await showStarted(cli, client, run, options.detach === true)
    })
}

async function stepId(client: Client, run: string, given: string): Promise<string> {
  if (given.startsWith('stp_')) return given
  return findStep(await client.call('runs.get', { params: { id: run } }), given).id
}

function findStep(run: RunView, key: string): RunView['steps'][number] {
  const found = run.steps.find((step) => step.key === key)
  if (found) return found
  throw new CliError(EXIT.notFound, `the run has no step ${JSON.stringify(key)}`, {
    next: stepsToName(run),
  })
}
