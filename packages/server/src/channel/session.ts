import type { AuditHead } from '@tenon/core'
import type { RejectCode, ServerFrame } from '@tenon/protocol'
import type { OpenedSession } from '../agents/connect.ts'
import type { Dispatcher } from './dispatcher.ts'
import type { LogSink } from './log-sink.ts'

/** Everything about an agent that is connected here. Kept small: there may be thousands. */
export interface Session extends Omit<OpenedSession, 'verdicts'> {
  agentId: string
  send(frame: ServerFrame): void
  reject(code: RejectCode, message: string): void
  /** Tells the agent the server's keys, unless it knows the newest one. */
  announceKeys(): void
  /** When the last byte of the agent came. */
  heardAt(): number
  dispatcher: Dispatcher
  /** By the stream number that the agent chose. */
  sinks: Map<number, LogSink>
}

/** Only what belongs to the chain of the agent's own install is for it to keep. */
export function headFor(session: Session, head: AuditHead | null): AuditHead | null {
  return head && head.chain === session.installId ? head : null
}
