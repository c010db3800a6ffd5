import type { Command } from '@commander-js/extra-typings'
import type { CallOutput, Client } from '@tenon/protocol'
import { resolve } from 'node:path'
import { describeChanges, diffApps, type Change } from '../app-config/diff-app.ts'
import { loadApp, type LoadedApp } from '../app-config/load-app.ts'
import { formatWarning } from '../app-config/problem.ts'
import type { Cli } from '../cli.ts'
import { examples } from '../help-text.ts'
import { plain } from '../output/clean.ts'
import { ago, plural, shortDigest } from '../output/words.ts'
import { newestVersionIfAny } from './app-version.ts'
import { showGraph } from './apps-graph.ts'
import { renderComponent } from './apps-render.ts'
import { AFTER, LIMIT, pageQuery, showPage, type PageOptions } from './paging.ts'

export function addApps(program: Command, cli: Cli): void {
  const apps = program
    .command('apps')
    .description('what you ship: apps and their components')
    .addHelpText('after', examples('tenon apps list', 'tenon apps sync ./my-app'))
  apps
    .command('list')
    .description('list apps with their newest version')
    .option(...LIMIT)
    .option(...AFTER)
    .addHelpText('after', examples('tenon apps list', 'tenon apps list --json'))
    .action((options) => list(cli, options))
  apps
    .command('show')
    .description('one app: its components, inputs, secrets, actions and policies')
    .argument('<app>', 'its name or id')
    .addHelpText('after', examples('tenon apps show hello'))
    .action((app) => show(cli, app))
  apps
    .command('sync')
    .description('store the app of a config folder as a new version; the same content changes nothing')
    .argument('[dir]', 'the folder that holds metadata.toml', '.')
    .option('--name <name>', 'the app’s name; from metadata.toml otherwise')
    .addHelpText('after', examples('tenon apps sync', 'tenon apps sync ./my-app --name my-app'))
    .action(async (dir, options) => {
      const client = await cli.client()
      const { answer, changes } = await syncApp(cli, client, dir, options.name)
      if (cli.globals.json) return cli.out.json({ ...answer, changes })
      cli.out.line(describeSync(answer))
      for (const line of describeChanges(changes)) cli.out.line(plain(line))
    })
  apps
    .command('graph')
    .description('what depends on what: levels that are deployed one after the other')
    .argument('[app]', 'a config folder, or the name of an app', '.')
    .option('--dot', 'for Graphviz')
    .addHelpText(
      'after',
      examples('tenon apps graph ./my-app', 'tenon apps graph my-app --dot | dot -Tsvg > graph.svg'),
    )
    .action((target, options) => showGraph(cli, target, options))
  apps
    .command('render')
    .description('a component’s configuration as an install would render it, without secret values')
    .argument('<component>', 'its name')
    .requiredOption('--install <install>', 'the install, by name or id')
    .addHelpText('after', examples('tenon apps render api --install acme'))
    .action((component, options) => renderComponent(cli, component, options.install))
}

/** Loads the folder and sends it; also the first part of `builds create`. */
export async function syncApp(
  cli: Cli,
  client: Client,
  dir: string,
  name: string | undefined,
): Promise<{ loaded: LoadedApp; answer: SyncAnswer; changes: Change[] }> {
  const loaded = await loadApp(resolve(cli.io.cwd, dir), name)
  for (const warning of loaded.warnings) cli.out.note(`warning: ${formatWarning(warning)}`)
  const before = await newestVersionIfAny(client, loaded.app.name)
  const answer = await client.call('apps.sync', { body: { app: loaded.app } })
  const changes = before && answer.changed ? diffApps(before.app, loaded.app) : []
  return { loaded, answer, changes }
}

export type SyncAnswer = CallOutput<'apps.sync'>

export function describeSync({ app, changed }: SyncAnswer): string {
  const words = changed ? 'stored' : 'unchanged'
  return `${app.name} version ${app.version}: ${words} (${plural(app.components.length, 'component')})`
}

async function list(cli: Cli, options: PageOptions): Promise<void> {
  const client = await cli.client()
  const page = await client.call('apps.list', { query: pageQuery(options) })
  const now = cli.io.clock.now()
  showPage(
    cli,
    page,
    [
      { title: 'NAME', value: (a) => a.name },
      { title: 'VERSION', value: (a) => a.version },
      { title: 'COMPONENTS', value: (a) => a.components.length },
      { title: 'BUILT', value: (a) => a.components.filter((c) => c.artifact !== null).length },
      { title: 'CHANGED', value: (a) => ago(a.createdAt, now) },
      { title: 'DESCRIPTION', value: (a) => a.description, shrink: true },
    ],
    'no apps yet; next: tenon apps sync DIR',
  )
}

async function show(cli: Cli, ref: string): Promise<void> {
  const { out } = cli
  const client = await cli.client()
  const app = await client.call('apps.get', { params: { ref } })
  if (cli.globals.json) return out.json(app)
  const version = await client.call('apps.version', { params: { ref, number: String(app.version) } })
  const { inputs = [], secrets = [], actions = [], policies = [] } = version.app
  out.fields([
    ['name', app.name],
    ['id', app.id],
    ['display name', app.displayName],
    ['description', app.description],
    ['version', app.version],
    ['changed', app.createdAt],
  ])
  out.line()
  out.table(
    [
      { title: 'COMPONENT', value: (c) => c.name },
      { title: 'TYPE', value: (c) => c.type },
      { title: 'DEPENDS ON', value: (c) => c.dependencies.join(', '), shrink: true },
      { title: 'ARTIFACT', value: (c) => shortDigest(c.artifact) },
    ],
    app.components,
    'no components',
  )
  for (const [title, rows] of [
    ['INPUT', inputs.map(inputRow)],
    ['SECRET', secrets.map(secretRow)],
    ['ACTION', actions.map(actionRow)],
    ['POLICY', policies.map(policyRow)],
  ] as const)
    showPart(cli, title, rows)
}

/** A part of an app: its name, what it is, and more about it. */
interface PartRow {
  name: string
  what: string
  more: string
}

function showPart(cli: Cli, title: string, rows: readonly PartRow[]): void {
  if (rows.length === 0) return
  cli.out.line()
  cli.out.table(
    [
      { title, value: (row) => row.name },
      { title: 'WHAT', value: (row) => row.what },
      { title: 'MORE', value: (row) => row.more, shrink: true },
    ],
    rows,
    '',
  )
}

type App = LoadedApp['app']

function inputRow(input: NonNullable<App['inputs']>[number]): PartRow {
  const preset = input.default === undefined ? undefined : `default ${JSON.stringify(input.default)}`
  const needed = input.required && preset === undefined ? 'required' : preset
  const words = [input.type, needed, input.sensitive ? 'sensitive' : undefined]
  return { name: input.name, what: listed(words), more: input.description }
}

function secretRow(secret: NonNullable<App['secrets']>[number]): PartRow {
  const made = secret.autoGenerate ? 'generated' : undefined
  const words = [secret.required ? 'required' : 'optional', made]
  return { name: secret.name, what: listed(words), more: secret.description }
}

function actionRow(action: NonNullable<App['actions']>[number]): PartRow {
  const triggers = action.triggers.map(({ type, component, cron }) =>
    [type, component ?? cron].filter(Boolean).join(' '),
  )
  return { name: action.name, what: plural(action.steps.length, 'step'), more: triggers.join(', ') }
}

function policyRow(policy: NonNullable<App['policies']>[number]): PartRow {
  const of = policy.components.length === 0 ? 'all' : policy.components.join(', ')
  return { name: policy.name, what: `${policy.engine} on ${policy.type}`, more: of }
}

function listed(words: readonly (string | undefined)[]): string {
  return words.filter((word) => word !== undefined).join(', ')
}
