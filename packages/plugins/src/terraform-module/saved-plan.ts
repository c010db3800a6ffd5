import { stale } from '../deploy/saved-plan.ts'
import { engineId, shownEngine, type EngineId } from './engine.ts'
import { z } from 'zod'

const header = z.object({ savedPlan: z.literal(1), engine: engineId })
const LINE_END = 0x0a
const MAX_HEADER_BYTES = 1024

/** What the install store keeps: a line that says who made the plan, then the plan as its maker wrote it. */
export function packPlan(engine: EngineId, plan: Uint8Array): Buffer {
  return Buffer.concat([
    Buffer.from(
      `${JSON.stringify({ savedPlan: 1, engine: { name: engine.name, version: engine.version } })}\n`,
    ),
    plan,
  ])
}

/** The plan itself, for the very engine that made it: another one, or another version, reads it as it likes. */
export function unpackPlan(kept: Uint8Array, here: EngineId, digest: string): Uint8Array {
  const end = kept.indexOf(LINE_END)
  const made = end < 0 || end > MAX_HEADER_BYTES ? undefined : readHeader(kept.subarray(0, end))
  if (made === undefined) throw stale(digest, 'it does not say which engine made it.')
  if (made.name !== here.name || made.version !== here.version)
    throw stale(digest, `${shownEngine(made)} made it, and this job has ${shownEngine(here)}.`)
  return kept.subarray(end + 1)
}

function readHeader(line: Uint8Array): EngineId | undefined {
  try {
    return header.parse(JSON.parse(Buffer.from(line).toString('utf8'))).engine
  } catch {
    return undefined
  }
}
