import { join } from 'node:path'
import { connectHost } from '../sandbox-local/host-client.ts'
import type { JobWorld } from './job-world.ts'
import { until, type RunningProgram } from './programs.ts'

/** A real local-host as its own process, the customer's machine of a test. */
export interface TestHost {
  dir: string
  adminSocket: string
  program: RunningProgram
  /** Makes an empty install; the path of its socket. */
  ensureInstall(id: string): Promise<string>
  /** Stops it with everything it runs. */
  stop(): Promise<void>
}

export async function createTestHost(world: JobWorld): Promise<TestHost> {
  const dir = await world.folder({ 'keep/this': '' })
  const program = world.spawn([join(world.programs, 'local-host.mjs'), '--dir', dir])
  const adminSocket = await until('the local-host', () => /^\/.*admin\.sock$/m.exec(program.output())?.[0])
  return {
    dir,
    adminSocket,
    program,
    ensureInstall: async (id) => {
      const host = await connectHost(dir, new AbortController().signal)
      return (await host.putInstall(id, {}, 0)).install.socketPath
    },
    stop: async () => {
      program.child.kill('SIGTERM')
      await program.ended
    },
  }
}
