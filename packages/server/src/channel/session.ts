import { signingBytes, type AuditHead } from '@tenon/core'
import {
  agentFrame,
  BULK_LOG,
  decodeBulk,
  WIRE_VERSION,
  type AgentFrame,
  type RejectCode,
  type ServerFrame,
} from '@tenon/protocol'
import { randomBytes } from 'node:crypto'
import type { WebSocket } from 'ws'
import type { Context } from '../context.ts'
import { isDatabaseAway } from '../store/database.ts'
import { openSession, type Challenge, type OpenedSession } from '../operations/open-session.ts'
import { createLogSink, type LogSink } from './log-sink.ts'
import { createDispatcher, type Dispatcher } from './dispatcher.ts'
import { handleFrame } from './frames.ts'
import type { Sessions } from './sessions.ts'

/** Everything about an agent that is connected here. Kept small: there may be thousands. */
export interface Session extends OpenedSession {
  agentId: string
  send(frame: ServerFrame): void
  reject(code: RejectCode, message: string): void
  dispatcher: Dispatcher
  sinks: Map<number, LogSink>
}

type Phase =
  | { at: 'opening' }
  | { at: 'challenged'; challenge: Challenge }
  | { at: 'ready'; session: Session }
  | { at: 'closed' }

const HANDSHAKE_MS = 15_000

/**
 * One agent's connection, from the first byte to the last. Frames are handled one after the other, in their order;
 * those about different jobs do not wait for each other.
 */
export function serveConnection(context: Context, sessions: Sessions, socket: WebSocket): void {
  let phase: Phase = { at: 'opening' }
  const lanes = new Map<string, Promise<void>>()
  let queued = 0
  const patience = setTimeout(() => reject('out_of_order', 'no handshake in time'), HANDSHAKE_MS)

  const send = (frame: ServerFrame) => {
    if (socket.readyState === socket.OPEN) socket.send(JSON.stringify(frame))
  }
  function reject(code: RejectCode, message: string): void {
    if (phase.at === 'closed') return
    send({ type: 'reject', code, message })
    socket.close(4000, code)
    close()
  }
  function close(): void {
    clearTimeout(patience)
    if (phase.at === 'ready') void sessions.remove(phase.session)
    phase = { at: 'closed' }
  }

  socket.on('error', () => socket.terminate())
  socket.on('close', close)
  socket.on('message', (data: Buffer, isBinary: boolean) => {
    if (phase.at === 'closed') return
    if (isBinary) return takeBulk(data)
    const frame = parseFrame(data)
    if (!frame) return reject('bad_frame', 'this is no frame of the agent channel')
    if (++queued > 10_000) return reject('busy', 'too many frames are waiting')
    const lane = phase.at === 'ready' ? laneOf(frame) : ''
    const work = (lanes.get(lane) ?? Promise.resolve()).then(() => take(frame))
    lanes.set(lane, work)
    void work.finally(() => {
      queued -= 1
      if (lanes.get(lane) === work) lanes.delete(lane)
    })
  })

  async function take(frame: AgentFrame): Promise<void> {
    try {
      if (phase.at === 'closed') return
      if (phase.at === 'ready' && frame.type !== 'open' && frame.type !== 'hello')
        return await handleFrame(context, sessions, phase.session, frame)
      if (phase.at === 'opening' && frame.type === 'open') return challenge(frame)
      if (phase.at === 'challenged' && frame.type === 'hello') return await welcome(phase.challenge, frame)
      reject('out_of_order', `a ${frame.type} frame does not belong here`)
    } catch (error) {
      // With the database away nothing was stored, so nothing is acknowledged: the agent keeps it and comes again.
      if (!isDatabaseAway(error))
        context.log.error({ err: error, frame: frame.type }, 'a frame could not be handled')
      reject('busy', 'the server cannot store this now; connect again')
    }
  }

  function challenge(frame: Extract<AgentFrame, { type: 'open' }>): void {
    if (frame.wire !== WIRE_VERSION)
      return reject('wire_version', `this server speaks wire version ${WIRE_VERSION}; update the older side`)
    const nonce = randomBytes(24).toString('base64')
    const { keyId, key } = context.keys.current()
    const statement = { agentId: frame.agentId, agentNonce: frame.nonce, nonce, serverId: context.serverId }
    phase = {
      at: 'challenged',
      challenge: { agentId: frame.agentId, agentNonce: frame.nonce, nonce, wire: frame.wire },
    }
    send({
      type: 'challenge',
      wire: WIRE_VERSION,
      serverId: context.serverId,
      nonce,
      keyId,
      signature: key.sign(signingBytes('server-challenge/1', statement)),
      keys: context.keys.links(),
    })
  }

  async function welcome(given: Challenge, hello: Extract<AgentFrame, { type: 'hello' }>): Promise<void> {
    const opened = await openSession(context, given, hello)
    if (!opened.ok) return reject(opened.code, opened.message)
    if (phase.at !== 'challenged') return
    clearTimeout(patience)
    const session: Session = {
      ...opened.session,
      agentId: given.agentId,
      send,
      reject,
      sinks: new Map(),
      dispatcher: createDispatcher(context, sessions.desk, opened.session, given.agentId, hello.slots, send),
    }
    phase = { at: 'ready', session }
    sessions.add(session)
    const { heartbeatSeconds, leaseSeconds } = context.config
    send({
      type: 'welcome',
      sessionId: session.sessionId,
      heartbeatSeconds,
      leaseSeconds,
      verdicts: session.verdicts,
      auditHead: session.auditHead,
      eventSeq: session.eventSeq,
      at: new Date(context.now()).toISOString(),
    })
    session.verdicts = []
    session.dispatcher.nudge()
    sessions.control(session.agentId)
  }

  function takeBulk(data: Buffer): void {
    const frame = decodeBulk(data)
    if (phase.at !== 'ready' || !frame || frame.kind !== BULK_LOG)
      return reject('bad_frame', 'this is no binary frame of the agent channel')
    const sink = phase.session.sinks.get(frame.stream)
    if (sink && !sink.write(frame.offset, frame.payload))
      reject('out_of_order', 'log bytes are missing in between')
  }
}

/** What a job does is told in order; everything else about an agent shares one lane. */
function laneOf(frame: AgentFrame): string {
  switch (frame.type) {
    case 'job.accepted':
    case 'job.refused':
    case 'job.started':
    case 'job.progress':
      return frame.jobId
    case 'job.finished':
      return frame.report.jobId
    default:
      return ''
  }
}

/** Opened here because the sink must exist before the agent hears where to start. */
export function openSink(
  context: Context,
  session: Session,
  stream: number,
  jobId: string,
  start: number,
): void {
  session.sinks.get(stream)?.close()
  const acknowledge = (offset: number) => session.send({ type: 'log.ack', stream, offset })
  session.sinks.set(stream, createLogSink(context, jobId, start, acknowledge))
  acknowledge(start)
}

/** Only what belongs to the chain of the agent's own install is for it to keep. */
export function headFor(session: Session, head: AuditHead | null): AuditHead | null {
  return head && head.chain === session.installId ? head : null
}

function parseFrame(data: Buffer): AgentFrame | undefined {
  try {
    return agentFrame.safeParse(JSON.parse(data.toString('utf8'))).data
  } catch {
    return undefined
  }
}
