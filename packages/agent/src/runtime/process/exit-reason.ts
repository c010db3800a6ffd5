import type { JobExit } from '../runtime.ts'

/** What the launcher and the agent wrote down about a job's end. */
export interface ExitFacts {
  /** As a shell gives it: 128 + n when signal n ended the program. `null` when nobody saw the end. */
  code: number | null
  cause: 'none' | 'timeout' | 'stopped'
  /** Processes of the job that the kernel killed for memory. */
  oomKills: number
  /** The agent's own watch killed the job for memory. */
  overMemory: boolean
  stopReason: 'canceled' | 'timeout' | undefined
}

const SIGNALS: Record<number, string> = {
  1: 'SIGHUP',
  2: 'SIGINT',
  3: 'SIGQUIT',
  4: 'SIGILL',
  6: 'SIGABRT',
  7: 'SIGBUS',
  8: 'SIGFPE',
  9: 'SIGKILL',
  11: 'SIGSEGV',
  13: 'SIGPIPE',
  14: 'SIGALRM',
  15: 'SIGTERM',
}

/** A stop that was asked for explains the end best, then memory, then the code itself. */
export function exitReason(facts: ExitFacts): JobExit {
  const { code } = facts
  if (code === null && facts.stopReason === undefined && !facts.overMemory) {
    return { reason: 'gone', exitCode: null, message: 'The job vanished: nothing tells how it ended.' }
  }
  const stopped = facts.cause === 'stopped' || (facts.stopReason !== undefined && wasEndedByStop(facts))
  if (facts.cause === 'timeout' || (stopped && facts.stopReason === 'timeout')) {
    return { reason: 'timeout', exitCode: code, message: 'The job was stopped at its time limit.' }
  }
  if (stopped) {
    return { reason: 'canceled', exitCode: code, message: 'The job was stopped on request.' }
  }
  if (facts.overMemory || (facts.oomKills > 0 && code !== 0)) {
    const itself = facts.overMemory || SIGNALS[(code ?? 0) - 128] === 'SIGKILL'
    const what = itself ? 'The job went' : 'A process of the job went'
    return { reason: 'oom', exitCode: code, message: `${what} past the memory limit and was killed.` }
  }
  if (code === 0) {
    const kills = facts.oomKills > 0 ? { memoryKills: facts.oomKills } : {}
    return { reason: 'completed', exitCode: 0, message: 'The job ended well.', ...kills }
  }
  const signal = SIGNALS[(code ?? 0) - 128]
  if (signal !== undefined) {
    return { reason: 'signal', exitCode: code, message: `The job was ended by ${signal} from outside.` }
  }
  return { reason: 'exit', exitCode: code, message: `The job ended with exit code ${code}.` }
}

/** The signals of a stop may reach the program before the launcher on a busy machine, which then says nothing of it. */
function wasEndedByStop({ code, cause, oomKills, overMemory }: ExitFacts): boolean {
  if (code === null) return true
  const isBySignal = SIGNALS[code - 128] === 'SIGTERM' || SIGNALS[code - 128] === 'SIGKILL'
  return cause === 'none' && isBySignal && oomKills === 0 && !overMemory
}
