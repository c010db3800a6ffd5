import { setTimeout as pause } from 'node:timers/promises'
import { AgentError } from '../ground/errors.ts'
import { readLastStart } from './last-start.ts'
import type { OwnerAccess } from './owner-access.ts'
import { createSocketAccess, isListening } from './socket-access.ts'
import { createStoppedAccess, type AgentFolder } from './stopped-access.ts'

const PATIENCE_MS = 5000
const TRY_AGAIN_MS = 100

/** Through the running agent when there is one, otherwise on its folder. One that starts or ends is waited for. */
export async function withAgent<T>(folder: AgentFolder, act: (agent: OwnerAccess) => Promise<T>): Promise<T> {
  const deadline = performance.now() + PATIENCE_MS
  for (;;) {
    const socket = (await readLastStart(folder.dir))?.socket
    const agent =
      socket !== undefined && (await isListening(socket))
        ? createSocketAccess(socket)
        : createStoppedAccess(folder)
    try {
      return await act(agent)
    } catch (error) {
      if (!(error instanceof AgentError) || error.code !== 'folder_in_use') throw error
      if (performance.now() > deadline) throw busy(folder.dir, error)
      await pause(TRY_AGAIN_MS)
    }
  }
}

function busy(dir: string, cause: AgentError): AgentError {
  return new AgentError(
    'agent_busy',
    `The agent of ${dir} runs but does not answer yet: it starts, ends, or waits for the server to enrol.`,
    "Try again in a moment; the agent's own log says what it waits for.",
    { cause },
  )
}
