import { id, pluginDescription } from '@tenon/protocol'
import { z } from 'zod'
import { readConfig } from '../sdk/config.ts'
import type { OperationContext, OperationResult, Plugin } from '../sdk/plugin.ts'
import { createSandbox } from './create.ts'
import { connectHost } from './host-client.ts'
import { removeKeys } from './keys.ts'
import description from './plugin.json' with { type: 'json' }

const sandboxConfig = z.looseObject({
  action: z.enum(['create', 'destroy']),
  installId: id,
  installName: z.string().max(200).default(''),
  host: z.looseObject({
    dir: z
      .string()
      .max(4096)
      .refine((path) => path.startsWith('/'), 'must be an absolute path'),
  }),
})
export type SandboxConfig = z.infer<typeof sandboxConfig>

/** The `local` sandbox: an install is a folder of the local-host, with its own agent and registry. */
const sandboxLocalPlugin: Plugin = {
  description: pluginDescription.parse(description),
  operations: { sandbox },
}
export default sandboxLocalPlugin

async function sandbox(context: OperationContext): Promise<OperationResult> {
  const config = readConfig(context.operation, sandboxConfig)
  if (config.action === 'create') return createSandbox(context, config)
  const host = await connectHost(config.host.dir, context.signal)
  const isRemoved = await host.deleteInstall(config.installId)
  await removeKeys(config.host.dir, config.installId)
  const install = `install ${config.installName || config.installId}`
  const message = isRemoved ? `${install} is removed` : `there was no ${install}`
  return { ok: true, message, data: { removed: isRemoved } }
}
