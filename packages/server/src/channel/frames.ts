import { isSignedBy, parseDocument } from '@tenon/core'
import { agentEvent as eventSchema, jobReport, type AgentFrame } from '@tenon/protocol'
import { noteEvent } from '../agents/events.ts'
import { grantCredential } from '../agents/grant-credential.ts'
import type { Context } from '../context.ts'
import { verify } from '../crypto.ts'
import { refuseJob } from '../jobs/control.ts'
import { holdJob, readVerdict } from '../jobs/hold.ts'
import { storedBytes } from '../jobs/logs.ts'
import { noteProgress } from '../jobs/progress.ts'
import { noteStored, noteRefused } from '../secrets/stored.ts'
import { createLogSink } from './log-sink.ts'
import { type Session, headFor } from './session.ts'
import type { Sessions } from './sessions.ts'

type Ready = Exclude<AgentFrame, { type: 'open' | 'hello' }>
type Frame<T extends Ready['type']> = Extract<Ready, { type: T }>

/** What each frame of a connected agent does. A frame about a job that is not this agent's changes nothing. */
export async function handleFrame(
  context: Context,
  sessions: Sessions,
  session: Session,
  frame: Ready,
): Promise<void> {
  if ('jobId' in frame) session.dispatcher.heard(frame.jobId)
  switch (frame.type) {
    case 'heartbeat':
      return answerHeartbeat(context, sessions, session, frame)
    case 'job.accepted':
      return
    case 'job.held':
      return jobHeld(context, session, frame)
    case 'job.refused':
      return jobRefused(context, session, frame)
    case 'job.started':
      session.dispatcher.runs(frame.jobId)
      return sessions.batches.started({ ...frame, agentId: session.agentId })
    case 'job.progress':
      return jobProgress(context, session, frame)
    case 'job.finished':
      return jobFinished(sessions, session, frame)
    case 'log.open':
      return logOpen(context, session, frame)
    case 'log.end':
      session.sinks.get(frame.stream)?.end()
      return
    case 'event':
      return agentEvent(context, session, frame)
    case 'credential.request':
      return credentialRequest(context, session, frame)
    case 'secret.stored':
      return secretStored(context, session, frame)
    case 'unsupported':
      return context.log.warn(
        { agentId: session.agentId, frame: frame.frame },
        'an agent does not know a frame of this server',
      )
  }
}

export function answerHeartbeat(
  context: Context,
  sessions: Sessions,
  session: Session,
  frame: Frame<'heartbeat'>,
): void {
  sessions.touch(session, frame.dropped)
  session.send({ type: 'heartbeat.ack', at: new Date(context.now()).toISOString() })
}

async function jobHeld(context: Context, session: Session, frame: Frame<'job.held'>): Promise<void> {
  const { agentId, publicKeys } = session
  const { jobId, fence, verdict: signed } = frame
  const answer = await holdJob(context, { agent: { id: agentId, publicKeys }, jobId, fence, signed })
  if (!answer.ok) return session.reject('bad_signature', answer.message)
  // Of one that runs by now the slot is taken.
  if (!answer.permit) return
  session.dispatcher.release(jobId)
  session.send({ type: 'job.permit', permit: answer.permit })
}

async function jobRefused(context: Context, session: Session, frame: Frame<'job.refused'>): Promise<void> {
  const { agentId, publicKeys, installId } = session
  const { jobId, fence, verdict: signed } = frame
  if (signed && readVerdict({ agent: { id: agentId, publicKeys }, jobId, fence, signed })?.answer !== 'no')
    return session.reject('bad_signature', 'a refusal is not signed by this agent, or not about that job')
  await refuseJob(context, { id: agentId, installId }, frame)
  session.dispatcher.release(jobId)
}

async function jobProgress(context: Context, session: Session, frame: Frame<'job.progress'>): Promise<void> {
  const { jobId, fence, message, fraction } = frame
  await noteProgress(context, { agentId: session.agentId, jobId, fence }, { message, fraction })
}

async function jobFinished(
  sessions: Sessions,
  session: Session,
  frame: Frame<'job.finished'>,
): Promise<void> {
  const report = jobReport.safeParse(parseDocument(frame.report.text)).data
  if (!report || report.jobId !== frame.jobId || report.fence !== frame.fence)
    return session.reject('bad_frame', 'this is no report of that job')
  if (report.agentId !== session.agentId) return session.reject('bad_frame', 'a report names another agent')
  session.dispatcher.heard(report.jobId)
  const agent = { id: session.agentId, publicKeys: session.publicKeys, installId: session.installId }
  const verdict = await sessions.batches.finish({ agent, report, signed: frame.report })
  if (!verdict.settled) return session.reject('bad_signature', verdict.message)
  session.dispatcher.release(report.jobId)
  session.send({
    type: 'job.settled',
    jobId: report.jobId,
    fence: report.fence,
    auditHead: headFor(session, verdict.head),
  })
}

async function logOpen(context: Context, session: Session, frame: Frame<'log.open'>): Promise<void> {
  const { jobId, fence, stream } = frame
  const start = await storedBytes(context.db, { agentId: session.agentId, jobId, fence })
  if (start !== undefined) openSink(context, session, stream, jobId, start)
}

/** One log has one sink: a job's next stream takes over from the one before. */
function openSink(context: Context, session: Session, stream: number, jobId: string, start: number): void {
  for (const [other, sink] of session.sinks) {
    if (other !== stream && sink.jobId !== jobId) continue
    sink.close()
    session.sinks.delete(other)
  }
  const acknowledge = (offset: number) => session.send({ type: 'log.ack', stream, offset })
  const forget = () => session.sinks.get(stream) === sink && session.sinks.delete(stream)
  const sink = createLogSink(context, jobId, start, acknowledge, forget)
  session.sinks.set(stream, sink)
  acknowledge(start)
}

/** Numbered by the agent, so that one that arrives twice is written once. */
async function agentEvent(
  context: Context,
  session: Session,
  { event: signed }: Frame<'event'>,
): Promise<void> {
  const event = eventSchema.safeParse(parseDocument(signed.text)).data
  if (!event) return session.reject('bad_frame', 'this is no event')
  const isOwn = session.publicKeys.some((key) => isSignedBy('agent-event/1', signed, key, verify))
  if (event.agentId !== session.agentId || !isOwn)
    return session.reject('bad_signature', 'an event is not signed by this agent')
  const head = await noteEvent(context, { id: session.agentId, installId: session.installId }, event, signed)
  session.send({
    type: 'event.ack',
    seq: event.seq,
    auditHead: headFor(session, head),
  })
}

async function credentialRequest(
  context: Context,
  session: Session,
  frame: Frame<'credential.request'>,
): Promise<void> {
  const answer = await grantCredential(context, session, frame)
  if (answer.ok)
    session.send({ type: 'credential.grant', requestId: frame.requestId, credential: answer.credential })
  else session.send({ type: 'credential.refused', requestId: frame.requestId, message: answer.message })
}

async function secretStored(
  context: Context,
  { agentId, installId }: Session,
  { secretId, ok, message }: Frame<'secret.stored'>,
): Promise<void> {
  if (installId === null) return
  if (ok) await noteStored(context, { agentId, installId, secretId })
  else await noteRefused(context, { agentId, installId, secretId }, message)
}
