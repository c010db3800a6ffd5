import { Option, type Command } from '@commander-js/extra-typings'
import type { Cli } from '../cli.ts'
import { examples } from '../help-text.ts'
import { paintStatus } from '../output/paint.ts'
import { ago } from '../output/words.ts'
import { spawnBundle } from '../spawn-bundle.ts'
import { AFTER, LIMIT, pageQuery, showPage, wholeNumber, type PageOptions } from './paging.ts'

export function addAgent(program: Command, cli: Cli): void {
  const agent = program
    .command('agent')
    .description('run an agent here (other arguments are its own), or manage agents')
    .argument('[args...]', 'the agent’s own arguments')
    .allowUnknownOption()
    .addHelpText(
      'after',
      examples(
        'tenon agent join-token --role build > join.token',
        'tenon agent start --server https://tenon.example.com --dir ./agent --join-token-file join.token',
        'tenon agent list',
      ),
    )
    .action(async (args) => {
      cli.exitCode = await spawnBundle(cli.io, 'agent', args[0] === 'start' ? args.slice(1) : args)
    })
  agent
    .command('join-token')
    .description('a one-time token for a new build or setup agent, alone on stdout')
    .addOption(
      new Option('--role <role>', 'what the agent is for').choices(['build', 'setup']).makeOptionMandatory(),
    )
    .option('--minutes <n>', 'how long it can be used', wholeNumber(1, 10_080), 60)
    .addHelpText('after', examples('tenon agent join-token --role build > join.token'))
    .action(async (options) => {
      const client = await cli.client()
      const body = { role: options.role, expiresInSeconds: options.minutes * 60 } as const
      const made = await client.call('agents.joinToken', { body })
      if (cli.globals.json) return cli.out.json(made)
      cli.out.line(made.joinToken)
      cli.out.note(`it works once, until ${made.expiresAt}`)
    })
  agent
    .command('list')
    .description('list agents and their connection')
    .option(...LIMIT)
    .option(...AFTER)
    .addHelpText('after', examples('tenon agent list', 'tenon agent list --json'))
    .action((options) => list(cli, options))
  agent
    .command('revoke')
    .description('end an agent’s identity at once')
    .argument('<agent>', 'its id')
    .addHelpText('after', examples('tenon agent revoke agt_01…'))
    .action(async (id) => {
      const client = await cli.client()
      const revoked = await client.call('agents.revoke', { params: { id } })
      if (cli.globals.json) return cli.out.json(revoked)
      cli.out.line(`agent ${revoked.id} (${revoked.role} on ${revoked.hostname}) is revoked`)
    })
}

async function list(cli: Cli, options: PageOptions): Promise<void> {
  const client = await cli.client()
  const page = await client.call('agents.list', { query: pageQuery(options) })
  const now = cli.io.clock.now()
  showPage(
    cli,
    page,
    [
      { title: 'ID', value: (a) => a.id },
      { title: 'ROLE', value: (a) => a.role },
      {
        title: 'STATUS',
        value: stateWord,
        paint: (text, a) => paintStatus(cli.out.paint, stateWord(a), text),
      },
      { title: 'SEEN', value: (a) => ago(a.lastSeenAt, now) },
      { title: 'JOBS', value: (a) => `${a.running}/${a.slots}` },
      { title: 'RUNTIME', value: (a) => a.runtime?.name },
      { title: 'VERSION', value: (a) => a.version },
      { title: 'INSTALL', value: (a) => a.installId },
      { title: 'HOST', value: (a) => a.hostname, shrink: true },
    ],
    'no agents yet; next: tenon agent join-token --role build',
  )
}

function stateWord(agent: { status: string; connected: boolean }): string {
  if (agent.status !== 'enrolled') return agent.status
  return agent.connected ? 'connected' : 'away'
}
