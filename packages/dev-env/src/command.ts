import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { Stage } from './stage.ts'

/** `tenon`, as a person runs it: its exit code, and what it printed. What it remembers lies in the stage's folder. */
export async function runTenon(
  stage: Stage,
  args: string[],
  env: Record<string, string> = {},
): Promise<{ code: number; output: string }> {
  const isAtServer = args[0] === 'server'
  const isAtAgent = args[0] === 'agent' && args.includes('--dir')
  const { dist, agentDist = dist } = stage.dists
  const child = spawn(process.execPath, [join(isAtAgent ? agentDist : dist, 'cli.mjs'), ...args], {
    cwd: stage.dir,
    env: {
      PATH: process.env['PATH'] ?? '',
      HOME: stage.dir,
      NO_COLOR: '1',
      // What is typed at the agent's side, or on the server's machine, works while the server is away.
      ...(isAtAgent || isAtServer ? {} : { TENON_URL: stage.server.url }),
      TENON_TOKEN_FILE: join(stage.dir, 'server', 'owner.token'),
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()))
  const [code] = (await once(child, 'close')) as [number | null]
  return { code: code ?? -1, output }
}
