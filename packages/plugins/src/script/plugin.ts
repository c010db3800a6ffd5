import { join } from 'node:path'
import { MEDIA_TYPES, pluginDescription } from '@tenon/protocol'
import type { OperationContext, OperationResult, Plugin } from '../sdk/plugin.ts'
import { runShell } from '../sdk/shell.ts'
import { build } from './build.ts'
import description from './plugin.json' with { type: 'json' }

/** The component type `script`: a folder whose deploy.sh, destroy.sh and status.sh do the work. */
const scriptPlugin: Plugin = {
  description: pluginDescription.parse(description),
  operations: { build, deploy: runScript, destroy: runScript, status: runScript },
}
export default scriptPlugin

/** Changes in place, in this job's own copy: a script may write beside itself. */
async function runScript(context: OperationContext): Promise<OperationResult> {
  const folder = await context.artifact('artifact', { artifactType: MEDIA_TYPES.script })
  return runShell(context, { path: join(folder, `${context.operation.operation}.sh`), cwd: folder })
}
