import type { AgentFrame, AttestationRequest, JobCredential } from '@tenon/protocol'
import { AgentError } from '../ground/errors.ts'

type Want = JobCredential['want']

interface Pending {
  frame: Extract<AgentFrame, { type: 'credential.request' }>
  resolve: (credential: JobCredential) => void
  reject: (error: AgentError) => void
  timer: NodeJS.Timeout
}

/** Credentials that jobs ask the server for. A request waits out a short absence of the server. */
export class CredentialRequests {
  readonly #send: (frame: AgentFrame) => boolean
  readonly #pending = new Map<number, Pending>()
  #next = 1

  constructor(send: (frame: AgentFrame) => boolean) {
    this.#send = send
  }

  request<W extends Want>(
    job: { jobId: string; fence: number },
    want: W,
    waitMs: number,
    artifact?: AttestationRequest,
  ): Promise<Extract<JobCredential, { want: W }>> {
    const requestId = this.#next++
    const { jobId, fence } = job
    const about = artifact === undefined ? {} : { artifact }
    const frame = { type: 'credential.request' as const, requestId, jobId, fence, want, ...about }
    return new Promise<JobCredential>((resolve, reject) => {
      const timer = setTimeout(() => this.#take(requestId)?.reject(away()), waitMs)
      this.#pending.set(requestId, { frame, resolve, reject, timer })
      this.#send(frame)
    }).then((credential) => {
      if (credential.want !== want) throw refused(`the server gave ${credential.want} for ${want}`)
      return credential as Extract<JobCredential, { want: W }>
    })
  }

  /** Asked again in the new session: the answer to the old one may be lost. */
  connected(): void {
    for (const { frame } of this.#pending.values()) this.#send(frame)
  }

  granted(requestId: number, credential: JobCredential): void {
    this.#take(requestId)?.resolve(credential)
  }

  refused(requestId: number, message: string): void {
    this.#take(requestId)?.reject(refused(message))
  }

  close(): void {
    for (const requestId of this.#pending.keys()) this.#take(requestId)?.reject(away())
  }

  #take(requestId: number): Pending | undefined {
    const pending = this.#pending.get(requestId)
    if (pending) clearTimeout(pending.timer)
    this.#pending.delete(requestId)
    return pending
  }
}

function refused(message: string): AgentError {
  return new AgentError(
    'credential_refused',
    `The server refused the credential: ${message}`,
    'Check that the job is still held by this agent and that its kind may have this credential.',
  )
}

function away(): AgentError {
  return new AgentError(
    'server_away',
    'The server could not be asked for the credential: there is no connection to it.',
    'Try again; the agent reconnects by itself.',
  )
}
