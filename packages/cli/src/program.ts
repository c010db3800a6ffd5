import { Command } from '@commander-js/extra-typings'
import { PRODUCT_VERSION } from '@tenon/protocol'
import type { Cli } from './cli.ts'
import { addAgent } from './commands/agent.ts'
import { addApps } from './commands/apps.ts'
import { addArtifacts } from './commands/artifacts.ts'
import { addAudit } from './commands/audit.ts'
import { addBuilds } from './commands/builds.ts'
import { addContexts } from './commands/contexts.ts'
import { addActions, addDeploy, addDeploys } from './commands/deploy.ts'
import { addDoctor } from './commands/doctor.ts'
import { addDrift } from './commands/drift.ts'
import { addHelp } from './commands/help.ts'
import { addInit } from './commands/init.ts'
import { addImages } from './commands/images.ts'
import { addInstalls } from './commands/installs.ts'
import { addJobs } from './commands/jobs.ts'
import { addLogin } from './commands/login.ts'
import { addLogs } from './commands/logs.ts'
import { addRegistry } from './commands/registry.ts'
import { addPlugins } from './commands/plugins.ts'
import { addRuns } from './commands/runs.ts'
import { addSchema } from './commands/schema.ts'
import { addServer } from './commands/server.ts'
import { addKeys } from './commands/keys.ts'
import { addTokens } from './commands/tokens.ts'
import { addValidate } from './commands/validate.ts'
import { examples } from './help-text.ts'

export function createProgram(cli: Cli): Command {
  const { stdout, stderr } = cli.io
  const program = new Command('tenon')
    .description('Run your product inside your customers’ own cloud accounts, and keep it running there.')
    .version(PRODUCT_VERSION, '-V, --version', 'print the version')
    .option('--json', 'print the API’s values as JSON, for programs')
    .option('--context <name>', 'use this server of `tenon contexts` instead of the current one')
    .helpCommand(false)
    .exitOverride()
    .showHelpAfterError('next: add --help to see how it is used')
    .showSuggestionAfterError(true)
    .configureOutput({
      writeOut: (text) => void stdout.write(text),
      writeErr: (text) => void stderr.write(text),
      getOutHelpWidth: () => (stdout.isTTY ? stdout.columns || 80 : 100),
      getErrHelpWidth: () => (stderr.isTTY ? stderr.columns || 80 : 100),
      getOutHasColors: () => false,
      getErrHasColors: () => false,
    })
    .configureHelp({ showGlobalOptions: true })
    .addHelpText(
      'after',
      examples('tenon login --url https://tenon.example.com', 'tenon doctor', 'tenon deploy acme'),
    )
  program.hook('preAction', () => {
    const { json, context } = program.opts()
    cli.globals = { json: json === true, context }
  })
  for (const add of COMMANDS) add(program as unknown as Command, cli)
  return program as unknown as Command
}

const COMMANDS: readonly ((program: Command, cli: Cli) => void)[] = [
  addLogin,
  addContexts,
  addInit,
  addValidate,
  addSchema,
  addApps,
  addBuilds,
  addArtifacts,
  addRegistry,
  addPlugins,
  addInstalls,
  addDeploy,
  addDeploys,
  addActions,
  addDrift,
  addRuns,
  addJobs,
  addLogs,
  addAudit,
  addKeys,
  addTokens,
  addServer,
  addAgent,
  addImages,
  addDoctor,
  addHelp,
]
