import { exitReason } from '../process/exit-reason.ts'
import type { JobExit } from '../runtime.ts'
import type { WrapperStatus } from '../wrapper.ts'
import type { ContainerState } from './engine.ts'
import type { StopReason } from './job-folder.ts'

export interface EndFacts {
  /** Undefined when the engine does not know the container any more. */
  container: ContainerState | undefined
  status: WrapperStatus
  stopReason: StopReason | undefined
}

/** Whether the container ran and is over. One that was made but never started is not. */
export function hasEnded(container: ContainerState): boolean {
  return !container.isRunning && ['exited', 'dead', 'stopped'].includes(container.status)
}

/**
 * Pure: how a job ended. The engine knows the exit code, the wrapper what it did and what its own memory cgroup
 * counted: Podman with runc says nothing of memory. A code of 0 counts only with the wrapper's word for it:
 * an engine that lost a container in a crash may say 0 too.
 */
export function endOf({ container, status, stopReason }: EndFacts): JobExit {
  if (container === undefined && !status.isReady) {
    return { reason: 'start', exitCode: null, message: 'The agent ended while it started the job.' }
  }
  const isSure = container !== undefined && (container.exitCode !== 0 || status.ended !== undefined)
  return exitReason({
    code: isSure ? container.exitCode : null,
    cause: causeOf(status, stopReason),
    oomKills: Math.max(status.ended?.oomKills ?? 0, container?.wasOomKilled ? 1 : 0),
    overMemory: false,
    stopReason,
  })
}

/** A stop by somebody else at the engine comes without a reason of ours: the exit code tells it. */
function causeOf(status: WrapperStatus, stopReason: StopReason | undefined): 'none' | 'timeout' | 'stopped' {
  const told = status.ended?.cause ?? 'stopped'
  return told === 'stopped' && stopReason === undefined ? 'none' : told
}
