import os from 'node:os'
import path from 'node:path'
import { PRODUCT_VERSION } from '@tenon/protocol'
import type { Logger } from 'pino'
import type { HelloContent } from '../channel/handshake.ts'
import type { AgentConfig } from '../config.ts'
import { chooseFolder, makePrivateFolder } from '../job-api/socket-folder.ts'
import { writeLastStart } from './last-start.ts'
import { createRunningAccess, type RunningAccessContext } from './running-access.ts'
import { serveAdminSocket } from './serve-admin-socket.ts'

/** The owner's way to the running agent. Beside the folder of the job API, not in it: jobs are let into that one. */
export async function openAdminSocket(
  config: AgentConfig,
  parts: Omit<RunningAccessContext, 'start'>,
  { runtime, log }: { runtime: HelloContent['runtime']; log: Logger },
) {
  const folder = chooseFolder(config.dir, os.tmpdir(), 'admin')
  await makePrivateFolder(folder)
  const socket = path.join(folder, 'admin.sock')
  const start = await writeLastStart(config, {
    socket,
    version: PRODUCT_VERSION,
    startedAt: new Date(parts.clock()).toISOString(),
    runtime,
  })
  return serveAdminSocket({ socket, access: createRunningAccess({ ...parts, start }), log })
}
