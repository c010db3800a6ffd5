import type { Engine } from './engine.ts'
import { EngineError } from './engine-http.ts'
import { pause } from './follow-end.ts'

const REMOVE_MILLISECONDS = 60_000

/** Certain and repeatable: ends only when the container is not there any more. */
export async function removeContainer(engine: Engine, name: string): Promise<void> {
  const deadline = Date.now() + REMOVE_MILLISECONDS
  for (let round = 0; (await engine.inspect(name)) !== undefined; round++) {
    if (Date.now() > deadline)
      throw new Error(`The container ${name} cannot be removed; remove it again later.`)
    if (round > 0) await pause(Math.min(20 * round, 500))
    await engine.remove(name).catch((error: unknown) => {
      // A file system that is still busy answers 500; the next round tries again.
      if (!(error instanceof EngineError) || error.code !== 'failed') throw error
    })
  }
}
