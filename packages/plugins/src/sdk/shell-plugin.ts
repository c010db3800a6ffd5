import { mkdir, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import type { PluginDescription } from '@tenon/protocol'
import { PluginError } from './errors.ts'
import type { OperationContext, OperationResult, Plugin } from './plugin.ts'
import { runShell } from './shell.ts'

/** A plugin without code of ours: in the folder `entry`, one executable per operation, named after it. */
export function shellPlugin(description: PluginDescription, entry: string): Plugin {
  const run = (context: OperationContext) => runOperation(context, entry)
  return { description, operations: Object.fromEntries(description.operations.map((name) => [name, run])) }
}

async function runOperation(context: OperationContext, entry: string): Promise<OperationResult> {
  const artifacts = join(context.workDir, 'named-artifacts')
  await mkdir(artifacts, { recursive: true })
  for (const { name } of context.operation.artifacts) {
    if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/.test(name)) throw unusable(name)
    await symlink(await context.artifact(name), join(artifacts, name))
  }
  return runShell(context, {
    path: join(entry, context.operation.operation),
    cwd: entry,
    env: { TENON_ARTIFACTS: artifacts },
  })
}

function unusable(name: string): PluginError {
  const message = `The artifact name ${JSON.stringify(name)} cannot be a folder's name.`
  return new PluginError('config_invalid', message, 'Use letters, digits, dots and dashes.')
}
