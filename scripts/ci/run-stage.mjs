// One stage of CI as a process: ended by its own limit, so that what hangs has a name.
import { spawn } from 'node:child_process'

/** For what ends itself when it is told to, such as a cluster. */
const GRACE_MS = 20_000

/**
 * What could not be had is `absent`; what hangs failed, whether it can be done without or not.
 * Its program finds in TENON_STAGE_ENDS, in milliseconds, when it would be taken for hanging.
 * @param {{ command: string[], optional?: boolean }} stage
 * @param {{ cwd: string, env: NodeJS.ProcessEnv, minutes: number, stdio?: 'inherit' | 'ignore' }} options
 * @returns {Promise<'passed' | 'failed' | 'hung' | 'absent'>}
 */
export async function runStage({ command: [program, ...args], optional }, options) {
  const { cwd, env, minutes, stdio = 'inherit' } = options
  // A group of its own, so that what hangs ends with all that it started.
  const child = spawn(program, args, {
    cwd,
    env: { ...env, TENON_STAGE_ENDS: String(Date.now() + minutes * 60_000) },
    stdio: ['ignore', stdio, stdio],
    detached: true,
  })
  let hung = false
  let kill
  const alarm = setTimeout(() => {
    hung = true
    endGroup(child.pid, 'SIGTERM')
    kill = setTimeout(() => endGroup(child.pid, 'SIGKILL'), GRACE_MS)
  }, minutes * 60_000)
  const code = await new Promise((settle) => {
    child.on('error', () => settle(127))
    child.on('close', (status) => settle(status ?? 1))
  })
  clearTimeout(alarm)
  clearTimeout(kill)
  if (hung) {
    // Its first process may have ended well before what it started.
    endGroup(child.pid, 'SIGKILL')
    return 'hung'
  }
  if (code === 0) return 'passed'
  return optional ? 'absent' : 'failed'
}

function endGroup(pid, signal) {
  if (pid === undefined) return
  try {
    process.kill(-pid, signal)
  } catch {
    // It ended by itself meanwhile.
  }
}
