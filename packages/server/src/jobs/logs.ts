import { jobStates } from '@tenon/core'
import type { Context } from '../context.ts'
import type { Db } from '../store/statements.ts'
import type { Lease } from './leases.ts'

/**
 * How far the log is stored afterwards. Another end than that of these bytes means that another session of the agent
 * has taken over; the same end also when an earlier try was stored and only its answer was lost.
 */
export async function storeLogChunk(
  context: Context,
  jobId: string,
  offset: number,
  bytes: Uint8Array,
): Promise<number> {
  const blob = `logs/${jobId}/${offset}.${bytes.byteLength}`
  await context.blobs.put(blob, bytes)
  const end = offset + bytes.byteLength
  const stored = await context.db.transaction().execute(async (db) => {
    const moved = await db
      .updateTable('job')
      .set({ log_bytes: end })
      .where('id', '=', jobId)
      .where('log_bytes', '=', offset)
      .executeTakeFirst()
    if (moved.numUpdatedRows === 0n) {
      const job = await db.selectFrom('job').select('log_bytes').where('id', '=', jobId).executeTakeFirst()
      return job?.log_bytes ?? 0
    }
    await db
      .insertInto('job_log_chunk')
      .values({ job_id: jobId, start_offset: offset, length: bytes.byteLength, blob })
      .execute()
    return end
  })
  context.hub.nudge([`log:${jobId}`])
  return stored
}

/** The stored bytes from an offset on, chunk by chunk. */
export async function* readLog(context: Context, jobId: string, offset: number): AsyncGenerator<Buffer> {
  let at = offset
  for (;;) {
    const chunks = await context.db
      .selectFrom('job_log_chunk')
      .selectAll()
      .where('job_id', '=', jobId)
      .where((eb) => eb(eb('start_offset', '+', eb.ref('length')), '>', at))
      .orderBy('start_offset')
      .limit(50)
      .execute()
    if (chunks.length === 0) return
    for (const chunk of chunks) {
      for await (const part of context.blobs.get(chunk.blob, at - chunk.start_offset)) {
        at += (part as Buffer).byteLength
        yield part as Buffer
      }
    }
  }
}

/** Nothing comes any more: the job has ended, or its agent for good. */
export async function isLogOver(db: Db, jobId: string): Promise<boolean> {
  const job = await db
    .selectFrom('job')
    .leftJoin('agent', 'agent.id', 'job.agent_id')
    .select(['job.status', 'agent.status as agent_status'])
    .where('job.id', '=', jobId)
    .executeTakeFirst()
  return !job || jobStates.isEnd(job.status) || (job.agent_status ?? 'enrolled') !== 'enrolled'
}

/** How much of a log is stored, for the agent that has the job. */
export async function storedBytes(db: Db, { agentId, jobId, fence }: Lease): Promise<number | undefined> {
  const job = await db
    .selectFrom('job')
    .select('log_bytes')
    .where('id', '=', jobId)
    .where('agent_id', '=', agentId)
    .where('fence', '=', fence)
    .executeTakeFirst()
  return job?.log_bytes
}
