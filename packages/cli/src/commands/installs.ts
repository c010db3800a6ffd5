import { Option, type Command } from '@commander-js/extra-typings'
import type { Json } from '@tenon/core'
import type { CallOutput } from '@tenon/protocol'
import { resolve } from 'node:path'
import type { Cli } from '../cli.ts'
import { usageError } from '../errors.ts'
import { showStarted } from '../follow/show-started.ts'
import { examples } from '../help-text.ts'
import { paintStatus } from '../output/paint.ts'
import { OUT, showSecret } from '../output/secret-file.ts'
import { ago, shortDigest } from '../output/words.ts'
import { confirm } from '../secrets/read-value.ts'
import { addSecrets } from './installs-secrets.ts'
import { addUpdate, refuseSensitive, takeInput } from './installs-update.ts'
import { AFTER, LIMIT, pageQuery, showPage, type PageOptions } from './paging.ts'

type Install = CallOutput<'installs.get'>

export function addInstalls(program: Command, cli: Cli): void {
  const installs = program
    .command('installs')
    .description('customers’ copies of apps')
    .addHelpText(
      'after',
      examples('tenon installs list', 'tenon installs create acme --app my-app --host ./acme'),
    )
  installs
    .command('list')
    .description('list installs')
    .option('--app <app>', 'only those of this app')
    .option(...LIMIT)
    .option(...AFTER)
    .addHelpText('after', examples('tenon installs list', 'tenon installs list --app my-app --json'))
    .action((options) => list(cli, options))
  installs
    .command('show')
    .description('one install: its agent, its components and their outputs')
    .argument('<install>', 'its name or id')
    .addHelpText('after', examples('tenon installs show acme'))
    .action(async (ref) => {
      const client = await cli.client()
      show(cli, await client.call('installs.get', { params: { ref } }))
    })
  addCreate(installs as unknown as Command, cli)
  addUpdate(installs as unknown as Command, cli)
  addRemovals(installs as unknown as Command, cli)
  installs
    .command('join-token')
    .description(
      'a one-time token for the agent of an install, alone on stdout; an owner makes one that replaces an agent',
    )
    .argument('<install>', 'its name or id')
    .option(...OUT)
    .addHelpText('after', examples('tenon installs join-token acme --out join.token'))
    .action(async (ref, options) => {
      const client = await cli.client()
      const made = await showSecret(
        cli,
        options.out,
        () => client.call('installs.joinToken', { params: { ref } }),
        ({ joinToken }) => joinToken,
      )
      if (cli.globals.json) return
      cli.out.note(`it works once, until ${made.expiresAt}`)
      if (made.replaces === null) return
      const { agent } = await client.call('installs.get', { params: { ref } })
      cli.out.note(
        agent?.id === made.replaces
          ? `it replaces agent ${made.replaces}: first its owner runs \`tenon agent release\` beside it; if it is gone: tenon agent revoke ${made.replaces}`
          : `it takes the place of agent ${made.replaces}, which has ended`,
      )
    })
  addSecrets(installs as unknown as Command, cli)
}

function addCreate(installs: Command, cli: Cli): void {
  installs
    .command('create')
    .description('create an install, provision it, and follow the run')
    .argument('<name>', 'its name')
    .requiredOption('--app <app>', 'the app it is a copy of')
    .addOption(
      new Option('--sandbox <type>', 'what lies under it').choices(['local', 'none']).default('none'),
    )
    .option('--host <dir>', 'the folder of the local sandbox’s host; implies --sandbox local')
    .option('--input <name=value>', 'an input; may be repeated', takeInput, {} as Record<string, Json>)
    .option('--detach', 'do not follow the run')
    .addHelpText(
      'after',
      examples(
        'tenon installs create acme --app my-app --host ./acme',
        'tenon installs create acme --app my-app --input region=eu',
      ),
    )
    .action(async (name, options) => {
      if (options.sandbox === 'local' && options.host === undefined)
        throw usageError(
          '--sandbox local needs --host',
          'name the folder of its host; `npm start` runs one in .tenon/customer',
        )
      const client = await cli.client()
      await refuseSensitive(client, options.app, name, Object.keys(options.input))
      const config: Record<string, Json> =
        options.host === undefined ? {} : { host: { dir: resolve(cli.io.cwd, options.host) } }
      const type = options.host === undefined ? options.sandbox : 'local'
      const body = { name, app: options.app, sandbox: { type, config }, inputs: options.input } as const
      const made = await client.call('installs.create', { body })
      const next = `give its agent a token: tenon installs join-token ${made.install.name} --out join.token`
      if (made.run) {
        if (cli.globals.json && options.detach) return cli.out.json(made)
        if (type === 'none' && !cli.globals.json) cli.out.note(`the run waits until you ${next}`)
        return showStarted(cli, client, made.run, options.detach === true)
      }
      if (cli.globals.json) return cli.out.json(made)
      cli.out.line(`install ${made.install.name} (${made.install.id}) is ${made.install.status}`)
      cli.out.note(`next: ${next}`)
    })
}

function addRemovals(installs: Command, cli: Cli): void {
  installs
    .command('deprovision')
    .description('remove every component of an install, then its sandbox')
    .argument('<install>', 'its name or id')
    .option('--yes', 'do not ask')
    .option('--detach', 'do not follow the run')
    .addHelpText(
      'after',
      examples('tenon installs deprovision acme', 'tenon installs deprovision acme --yes --detach'),
    )
    .action(async (ref, options) => {
      await confirm(cli.io, `remove everything of ${ref}`, options.yes === true)
      const client = await cli.client()
      const run = await client.call('installs.deprovision', { params: { ref } })
      await showStarted(cli, client, run, options.detach === true)
    })
  installs
    .command('delete')
    .description('take a deprovisioned install out of the lists; its audit and its runs stay')
    .argument('<install>', 'its name or id')
    .option('--yes', 'do not ask')
    .addHelpText('after', examples('tenon installs delete acme', 'tenon installs delete acme --yes'))
    .action(async (ref, options) => {
      await confirm(cli.io, `take ${ref} out of the lists for ever`, options.yes === true)
      const client = await cli.client()
      const gone = await client.call('installs.delete', { params: { ref } })
      if (cli.globals.json) return cli.out.json(gone)
      cli.out.line(
        `install ${gone.name} (${gone.id}) is deleted; its audit stays: tenon audit verify ${gone.id}`,
      )
    })
  installs
    .command('teardown')
    .description('remove components from an install, dependents first')
    .argument('<install>', 'its name or id')
    .argument('[components...]', 'which components; all of them otherwise')
    .option('--yes', 'do not ask')
    .option('--detach', 'do not follow the run')
    .addHelpText('after', examples('tenon installs teardown acme web', 'tenon installs teardown acme --yes'))
    .action(async (ref, components, options) => {
      const what = components.length > 0 ? components.join(', ') : 'every component'
      await confirm(cli.io, `remove ${what} from ${ref}`, options.yes === true)
      const client = await cli.client()
      const body = components.length > 0 ? { components } : {}
      const run = await client.call('installs.teardown', { params: { ref }, body })
      await showStarted(cli, client, run, options.detach === true)
    })
}

async function list(cli: Cli, options: PageOptions & { app?: string | undefined }): Promise<void> {
  const client = await cli.client()
  const app = options.app === undefined ? {} : { app: options.app }
  const page = await client.call('installs.list', { query: { ...pageQuery(options), ...app } })
  const now = cli.io.clock.now()
  const isOnly = ({ name }: Install) => page.items.filter((each) => each.name === name).length === 1
  showPage(
    cli,
    page,
    [
      // A name means the living install; one that gave its name on goes by its id.
      { title: 'NAME', value: (i) => (isOnly(i) ? i.name : `${i.name} (${i.id})`), shrink: true },
      { title: 'APP', value: (i) => i.app },
      { title: 'SANDBOX', value: (i) => i.sandbox },
      {
        title: 'STATUS',
        value: (i) => i.status,
        paint: (text, i) => paintStatus(cli.out.paint, i.status, text),
      },
      {
        title: 'AGENT',
        value: agentWord,
        paint: (text, i) => paintStatus(cli.out.paint, agentWord(i), text),
      },
      { title: 'COMPONENTS', value: (i) => i.components.length },
      { title: 'RUN', value: (i) => i.activeRun },
      { title: 'CREATED', value: (i) => ago(i.createdAt, now) },
    ],
    'no installs yet; next: tenon installs create NAME --app APP',
  )
}

function agentWord(install: Install): string {
  if (install.agent === null) return 'none'
  return install.agent.connected ? 'connected' : 'away'
}

function show(cli: Cli, install: Install): void {
  const { out } = cli
  if (cli.globals.json) return out.json(install)
  const now = cli.io.clock.now()
  const { agent } = install
  out.fields([
    ['name', install.name],
    ['id', install.id],
    ['app', install.app],
    ['sandbox', install.sandbox],
    ['status', install.status],
    [
      'agent',
      agent && `${agent.id} (${agent.version}), ${agentWord(install)}, seen ${ago(agent.lastSeenAt, now)}`,
    ],
    ['paused', agent?.pausedSince && pausedWords(agent.pausedSince, now)],
    ['approval', install.approval],
    ['inputs', jsonWords(install.inputs)],
    ['switches', jsonWords(install.toggles)],
    ['active run', install.activeRun],
    ['created', install.createdAt],
  ])
  out.line()
  out.table(
    [
      { title: 'COMPONENT', value: (c) => c.name },
      { title: 'STATUS', value: (c) => c.status, paint: (text, c) => paintStatus(out.paint, c.status, text) },
      { title: 'ARTIFACT', value: (c) => shortDigest(c.artifact) },
      { title: 'DEPLOYED', value: (c) => ago(c.deployedAt, now) },
      { title: 'DRIFT', value: (c) => driftWord(c.drift) },
      { title: 'OUTPUTS', value: (c) => outputWords(c.outputs), shrink: true },
    ],
    install.components,
    `nothing is deployed yet; next: tenon deploy ${install.name}`,
  )
}

function pausedWords(since: string, now: number): string {
  return `by the customer, ${ago(since, now)}: new jobs are held until it is resumed there`
}

function outputWords(outputs: Install['components'][number]['outputs']): string {
  const words = Object.entries(outputs).map(([name, { sensitive, value }]) => {
    if (sensitive) return `${name}=(sensitive)`
    return `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`
  })
  return words.join(' ')
}

function driftWord(drift: Install['components'][number]['drift']): string {
  if (drift === null) return ''
  const { create, update, delete: gone } = drift.plan.counts
  return `+${create} ~${update} -${gone}`
}

function jsonWords(values: Record<string, Json>): string | null {
  const words = Object.entries(values).map(
    ([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`,
  )
  return words.length === 0 ? null : words.join(' ')
}
