import type { FastifyReply } from 'fastify'
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import type { Context } from '../context.ts'
import { readLog, isLogOver } from '../jobs/logs.ts'
import { runView } from '../runs/views.ts'

/** Without any hint a follower looks again after this long: a hint may be lost, the database is the truth. */
const LOOK_AGAIN_MS = 2_000
const ENDED_RUNS = ['succeeded', 'failed', 'canceled']

/** The bytes stored so far; with `follow` also what comes, until the job has ended, or its agent for good. */
export async function streamLog(
  context: Context,
  jobId: string,
  offset: number,
  follow: boolean,
  reply: FastifyReply,
): Promise<void> {
  const raw = hijack(reply, 'application/octet-stream')
  const hints = hintsOf(context, [`log:${jobId}`, `job:${jobId}`])
  let at = offset
  try {
    for (;;) {
      const isOver = await isLogOver(context.db, jobId)
      for await (const bytes of readLog(context, jobId, at)) {
        at += bytes.byteLength
        if (!(await write(raw, bytes))) return
      }
      if (!follow || isOver) return
      await hints.wait(raw)
      if (raw.destroyed) return
    }
  } finally {
    hints.stop()
    raw.end()
  }
}

/** Server-sent events: the run each time it changes, and a comment now and then so that proxies keep the connection. */
export async function watchRun(context: Context, runId: string, reply: FastifyReply): Promise<void> {
  const raw = hijack(reply, 'text/event-stream')
  const hints = hintsOf(context, [`run:${runId}`])
  let last = ''
  try {
    for (;;) {
      const run = await runView(context.db, runId)
      const text = JSON.stringify(run)
      const event = text === last ? ': still here\n\n' : `event: run\ndata: ${text}\n\n`
      last = text
      if (!(await write(raw, Buffer.from(event)))) return
      if (!run || ENDED_RUNS.includes(run.status)) return
      await hints.wait(raw)
      if (raw.destroyed) return
    }
  } finally {
    hints.stop()
    raw.end()
  }
}

function hijack(reply: FastifyReply, type: string): ServerResponse {
  reply.hijack()
  const headers = {
    'content-type': type,
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    'x-request-id': reply.request.id,
  }
  reply.raw.writeHead(200, headers)
  reply.raw.flushHeaders()
  return reply.raw
}

function hintsOf(context: Context, topics: string[]) {
  let hinted = false
  let wake = () => {}
  const off = topics.map((topic) =>
    context.hub.on(topic, () => {
      hinted = true
      wake()
    }),
  )
  return {
    async wait(raw: ServerResponse): Promise<void> {
      if (!hinted) {
        await new Promise<void>((resolve) => {
          const done = () => {
            clearTimeout(timer)
            raw.off('close', done)
            resolve()
          }
          const timer = setTimeout(done, LOOK_AGAIN_MS)
          raw.once('close', done)
          wake = done
        })
      }
      hinted = false
    },
    stop: () => off.forEach((stop) => stop()),
  }
}

async function write(raw: ServerResponse, bytes: Buffer): Promise<boolean> {
  if (raw.destroyed) return false
  if (raw.write(bytes)) return true
  const over = new AbortController()
  const options = { signal: over.signal }
  await Promise.race([once(raw, 'drain', options), once(raw, 'close', options)]).finally(() => over.abort())
  return !raw.destroyed
}
