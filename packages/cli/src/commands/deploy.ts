import { InvalidArgumentError, type Command } from '@commander-js/extra-typings'
import type { Cli } from '../cli.ts'
import { showStarted } from '../follow/show-started.ts'
import { examples } from '../help-text.ts'
import { paintStatus } from '../output/paint.ts'
import { ago, shortDigest } from '../output/words.ts'
import { AFTER, LIMIT, pageQuery, showPage } from './paging.ts'
import { takeId } from './ids.ts'

export function addDeploy(program: Command, cli: Cli): void {
  program
    .command('deploy')
    .description('bring the newest builds of components to an install, and follow the run')
    .argument('<install>', 'the install’s name or id')
    .argument('[components...]', 'which components; all of them otherwise')
    .option('--changed', 'only what differs from what is there')
    .option('--build <component=build>', 'another build than the newest; may be repeated', takeBuild, {})
    .option('--detach', 'print the run’s id and do not follow it')
    .addHelpText(
      'after',
      examples(
        'tenon deploy acme',
        'tenon deploy acme web worker',
        'tenon deploy acme --changed',
        'tenon deploy acme --detach --json',
      ),
    )
    .action(async (install, components, options) => {
      const client = await cli.client()
      const body = {
        ...(components.length > 0 ? { components } : {}),
        ...(options.changed ? { changed: true } : {}),
        ...(Object.keys(options.build).length > 0 ? { builds: options.build } : {}),
      }
      const run = await client.call('deploys.create', { params: { ref: install }, body })
      await showStarted(cli, client, run, options.detach === true)
    })
}

export function addDeploys(program: Command, cli: Cli): void {
  const deploys = program
    .command('deploys')
    .description('what was deployed on an install')
    .addHelpText('after', examples('tenon deploys list acme', 'tenon deploys rollback acme dep_01…'))
  deploys
    .command('list')
    .description('list deploys, newest first')
    .argument('<install>', 'the install’s name or id')
    .option(...LIMIT)
    .option(...AFTER)
    .addHelpText('after', examples('tenon deploys list acme'))
    .action(async (ref, options) => {
      const client = await cli.client()
      const page = await client.call('deploys.list', { params: { ref }, query: pageQuery(options) })
      const now = cli.io.clock.now()
      showPage(
        cli,
        page,
        [
          { title: 'ID', value: (d) => d.id },
          { title: 'COMPONENT', value: (d) => d.component, shrink: true },
          {
            title: 'STATUS',
            value: (d) => d.status,
            paint: (text, d) => paintStatus(cli.out.paint, d.status, text),
          },
          { title: 'BUILD', value: (d) => d.buildId },
          { title: 'ARTIFACT', value: (d) => shortDigest(d.artifact) },
          { title: 'STARTED', value: (d) => ago(d.createdAt, now) },
        ],
        `nothing was deployed yet; next: tenon deploy ${ref}`,
      )
    })
  deploys
    .command('rollback')
    .description('deploy once more what an earlier deploy brought, and follow the run')
    .argument('<install>', 'the install’s name or id')
    .argument('<deploy>', 'the earlier deploy’s id', takeId('deploy'))
    .option('--detach', 'do not follow the run')
    .addHelpText('after', examples('tenon deploys rollback acme dep_01…'))
    .action(async (ref, id, options) => {
      const client = await cli.client()
      const run = await client.call('deploys.rollback', { params: { ref, id } })
      await showStarted(cli, client, run, options.detach === true)
    })
}

export function addActions(program: Command, cli: Cli): void {
  const actions = program
    .command('actions')
    .description('scripts of an app that run on an install')
    .addHelpText('after', examples('tenon actions run acme backup'))
  actions
    .command('run')
    .description('run an action on an install, and follow it')
    .argument('<install>', 'the install’s name or id')
    .argument('<action>', 'its name')
    .option('--detach', 'do not follow it')
    .addHelpText('after', examples('tenon actions run acme backup'))
    .action(async (ref, name, options) => {
      const client = await cli.client()
      const run = await client.call('actions.run', { params: { ref, name } })
      await showStarted(cli, client, run, options.detach === true)
    })
}

function takeBuild(given: string, before: Record<string, string>): Record<string, string> {
  const at = given.indexOf('=')
  if (at < 1) throw new InvalidArgumentError('expected component=build')
  return { ...before, [given.slice(0, at)]: given.slice(at + 1) }
}
