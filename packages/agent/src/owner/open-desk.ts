import os from 'node:os'
import path from 'node:path'
import { PRODUCT_VERSION } from '@tenon/protocol'
import type { Logger } from 'pino'
import type { HelloContent } from '../channel/handshake.ts'
import type { AgentConfig } from '../config.ts'
import { chooseFolder, makePrivateFolder } from '../job-api/socket-folder.ts'
import { writeLastStart } from './last-start.ts'
import { createRunningDesk, type RunningDeskContext } from './running-desk.ts'
import { serveDesk } from './serve-desk.ts'

/** The owner's way to the running agent. Beside the folder of the job API, not in it: jobs are let into that one. */
export async function openDesk(
  config: AgentConfig,
  parts: Omit<RunningDeskContext, 'start'>,
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
  return serveDesk({ socket, desk: createRunningDesk({ ...parts, start }), log })
}
