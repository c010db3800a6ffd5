import type { Command } from '@commander-js/extra-typings'
import type { CallOutput } from '@tenon/protocol'
import type { Cli } from '../cli.ts'
import { examples } from '../help-text.ts'
import { paintStatus } from '../output/paint.ts'
import { ago, between, shortDigest } from '../output/words.ts'
import { createBuilds } from './builds-create.ts'
import { AFTER, LIMIT, pageQuery, showPage, type PageOptions } from './paging.ts'
import { takeId } from './ids.ts'

export function addBuilds(program: Command, cli: Cli): void {
  const builds = program
    .command('builds')
    .description('attempts to make artifacts out of components and actions')
    .addHelpText('after', examples('tenon builds create ./my-app', 'tenon builds list --app my-app'))
  builds
    .command('create')
    .description(
      'sync the app of a folder, send its sources (without what their .tenonignore names), build, and follow',
    )
    .argument('[dir]', 'the folder that holds metadata.toml', '.')
    .option('--component <names...>', 'build only these components, or actions as action:NAME')
    .option('--name <name>', 'the app’s name; from metadata.toml otherwise')
    .option('--detach', 'do not follow the builds')
    .addHelpText(
      'after',
      examples('tenon builds create', 'tenon builds create ./my-app --component web worker'),
    )
    .action((dir, options) => createBuilds(cli, dir, options))
  builds
    .command('list')
    .description('list builds, newest first')
    .option('--app <app>', 'only those of this app')
    .option(...LIMIT)
    .option(...AFTER)
    .addHelpText('after', examples('tenon builds list', 'tenon builds list --app my-app'))
    .action((options) => list(cli, options))
  builds
    .command('show')
    .description('one build')
    .argument('<build>', 'its id', takeId('build'))
    .addHelpText('after', examples('tenon builds show bld_01…'))
    .action(async (id) => {
      const client = await cli.client()
      showBuild(cli, await client.call('builds.get', { params: { id } }))
    })
  builds
    .command('retry')
    .description('build again what failed or was canceled, from the same source')
    .argument('<build>', 'its id', takeId('build'))
    .addHelpText('after', examples('tenon builds retry bld_01…'))
    .action(async (id) => {
      const client = await cli.client()
      const build = await client.call('builds.retry', { params: { id } })
      if (cli.globals.json) return cli.out.json(build)
      cli.out.line(`build ${build.id} of ${build.component} is ${build.status}`)
      cli.out.note(`next: tenon builds show ${build.id}`)
    })
  builds
    .command('cancel')
    .description('cancel a build')
    .argument('<build>', 'its id', takeId('build'))
    .addHelpText('after', examples('tenon builds cancel bld_01…'))
    .action(async (id) => {
      const client = await cli.client()
      const build = await client.call('builds.cancel', { params: { id } })
      if (cli.globals.json) return cli.out.json(build)
      cli.out.line(`build ${build.id} is ${build.status === 'canceled' ? 'canceled' : 'being canceled'}`)
    })
}

async function list(cli: Cli, options: PageOptions & { app?: string | undefined }): Promise<void> {
  const client = await cli.client()
  const app = options.app === undefined ? {} : { app: options.app }
  const page = await client.call('builds.list', { query: { ...pageQuery(options), ...app } })
  const now = cli.io.clock.now()
  showPage(
    cli,
    page,
    [
      { title: 'ID', value: (b) => b.id },
      { title: 'APP', value: (b) => `${b.app} v${b.appVersion}` },
      { title: 'COMPONENT', value: (b) => b.component },
      {
        title: 'STATUS',
        value: (b) => b.status,
        paint: (text, b) => paintStatus(cli.out.paint, b.status, text),
      },
      { title: 'ARTIFACT', value: (b) => shortDigest(b.artifact) },
      { title: 'TOOK', value: (b) => between(b.createdAt, b.finishedAt, now) },
      { title: 'STARTED', value: (b) => ago(b.createdAt, now) },
      { title: 'MESSAGE', value: (b) => b.message, shrink: true },
    ],
    'no builds yet; next: tenon builds create DIR',
  )
}

function showBuild(cli: Cli, build: CallOutput<'builds.get'>): void {
  if (cli.globals.json) return cli.out.json(build)
  cli.out.fields([
    ['id', build.id],
    ['app', `${build.app} version ${build.appVersion}`],
    ['component', build.component],
    ['status', build.status],
    ['message', build.message],
    ['artifact', build.artifact],
    ['job', build.jobId],
    ['started', build.createdAt],
    ['finished', build.finishedAt],
  ])
  if (build.jobId !== null) cli.out.note(`next: tenon logs ${build.jobId}`)
}
