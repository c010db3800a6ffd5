import { randomBytes } from 'node:crypto'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import {
  makeId,
  flatManifest,
  isSignedBy,
  KIND_RULES,
  nestManifest,
  openSignedText,
  readKeyChange,
  signDocument,
  type IdKind,
  type JobManifest,
  type KeyLink,
  type JobKind,
  type ManifestOperation,
  type PlannedOperation,
  type SignedDocument,
  type SigningContext,
} from '@tenon/core'
import {
  agentEvent,
  agentFrame,
  agentHello,
  decodeBulk,
  enrolment,
  enrolRequest,
  formatJoinToken,
  jobReport,
  PRODUCT_VERSION,
  proveRequest,
  rotateKeyRequest,
  WIRE_VERSION,
  type AgentEvent,
  type AgentFrame,
  type AgentHello,
  type JobReport,
  type Enrolled,
  type KeyAccepted,
  type ServerFrame,
  type ServerProof,
} from '@tenon/protocol'
import { WebSocketServer, type WebSocket } from 'ws'
import { fingerprint, joinTokenKey, makeSigningKey, sha256, verify } from '../ground/crypto.ts'
import type { SigningKey } from '../ground/crypto.ts'
import { linkAfter } from './key-links.ts'
import { waitUntil } from './wait-until.ts'

/** As frames come, with what is signed in them read. */
export type HeardFrame =
  | Exclude<AgentFrame, { type: 'hello' | 'job.finished' | 'event' }>
  | ({ type: 'hello' } & AgentHello)
  | { type: 'job.finished'; jobId: string; fence: number; report: JobReport }
  | { type: 'event'; event: AgentEvent }
type Of<T extends HeardFrame['type']> = Extract<HeardFrame, { type: T }>
type Welcome = Extract<ServerFrame, { type: 'welcome' }>

export const newId = (kind: IdKind) => makeId(kind, Date.now(), randomBytes(10))

/** The other side of the contract, straight from the schemas: strict about what it hears, and able to misbehave. */
export class ContractServer {
  readonly serverId = 'server-under-test'
  readonly agentId = newId('agent')
  role: 'build' | 'setup' | 'install' = 'install'
  installId: string | null = newId('install')
  readonly keys: { link: KeyLink; key: SigningKey }[] = []
  /** Older servers say no ends of their keys. */
  saysEnds = true
  readonly frames: HeardFrame[] = []
  /** Log bytes by job, as far as they came without a gap. */
  readonly logs = new Map<string, Buffer>()
  sessions = 0
  agentPublicKey = ''
  readonly #earlierKeys: string[] = []
  /** What becomes of a new key of the agent: `lost` is taken, but the agent never hears of it. */
  keyAnswer: 'given' | 'lost' | 'none' = 'given'
  keyAcceptedAs: Partial<KeyAccepted> = {}
  /** Overrides, each for the part it names. */
  onOpen: ((socket: WebSocket, frame: Of<'open'>) => void) | undefined
  onHello: ((hello: Of<'hello'>) => Partial<Welcome> | undefined) | undefined
  /** Returns true when it did all that is to be done. */
  onFrame: ((frame: HeardFrame, socket: WebSocket) => boolean) | undefined
  enrolStatus = 200
  /** What the challenge chooses. */
  wire = WIRE_VERSION
  /** What it says otherwise of the agent that it enrolled. */
  enrolledAs: Partial<Enrolled> = {}
  ackLogs = true
  readonly problems: string[] = []
  socket: WebSocket | undefined
  #host = '127.0.0.1'
  /** Of the join tokens it made, by id. */
  readonly #secrets = new Map<string, string>()
  readonly #http = http.createServer((request, response) => void this.#answer(request, response))
  readonly #ws = new WebSocketServer({ noServer: true, perMessageDeflate: false })

  /** `host` is an address of this machine; agents in pods see no loopback. */
  static async start(host = '127.0.0.1'): Promise<ContractServer> {
    const server = new ContractServer()
    server.#host = host
    server.rotateKey()
    await new Promise<void>((resolve) => server.#http.listen(0, host, resolve))
    return server
  }

  private constructor() {
    this.#http.on('upgrade', (request, socket, head) => {
      this.#ws.handleUpgrade(request, socket, head, (ws) => this.#serve(ws))
    })
  }

  get url(): string {
    return `http://${this.#host}:${(this.#http.address() as AddressInfo).port}`
  }

  get joinToken(): string {
    const secret = randomBytes(32).toString('base64url')
    const id = newId('joinToken')
    this.#secrets.set(id, secret)
    return formatJoinToken({
      id,
      secret,
      fingerprint: fingerprint(this.keys[0]!.key.publicKey),
    })
  }

  /** The new key is vouched for by the one before it. */
  rotateKey(): void {
    const key = makeSigningKey()
    const keyId = newId('key')
    const before = this.keys.at(-1)
    const link = { keyId, publicKey: key.publicKey, signedBy: null, signature: null }
    this.keys.push({ key, link: before ? linkAfter(before, { ...link, key }, this.saysEnds) : link })
  }

  get current(): { link: KeyLink; key: SigningKey } {
    return this.keys.at(-1)!
  }

  /** Of whatever kind, it holds what a job of that kind may hold. */
  manifest(changes: Partial<JobManifest> = {}, fake: object = {}): JobManifest {
    const now = Date.now()
    const kind = changes.kind ?? 'deploy'
    const operation: PlannedOperation = {
      operation: 'deploy',
      plugin: { name: 'script', repository: 'plugins/script', digest: DIGEST },
      component: 'web',
      artifacts: [],
      approvedPlan: null,
      config: { component: { fake: { [kind]: fake as never } } },
    }
    const { operations = [operation], ...rest } = changes
    const manifest = {
      version: 2,
      serverId: this.serverId,
      jobId: newId('job'),
      fence: 1,
      kind,
      target: { role: this.role, installId: this.installId },
      role: null,
      network: { mode: 'open', names: [] },
      requires: [],
      operations: operations.map((one) => ({ ...one, ...holds(kind) })),
      limits: { memoryBytes: 1e8, cpus: 1, pids: 100, timeoutSeconds: 60, graceSeconds: 1 },
      issuedAt: new Date(now).toISOString(),
      notBefore: new Date(now - 1000).toISOString(),
      expiresAt: new Date(now + 3_600_000).toISOString(),
      ...rest,
    }
    return flatManifest(nested(manifest as unknown as JobManifest)) as JobManifest
  }

  #signText(
    context: 'server-proof/1' | 'server-enrolled/1' | 'agent-key-accepted/1',
    value: object,
  ): SignedDocument {
    return signDocument(context, value, this.current.link.keyId, this.current.key.sign)
  }

  sign(manifest: JobManifest, { link, key } = this.current): SignedDocument {
    return signDocument('job-manifest/1', nested(manifest), link.keyId, key.sign)
  }

  send(frame: ServerFrame): void {
    this.socket?.send(JSON.stringify(frame))
  }

  assign(manifest: JobManifest): void {
    this.send({ type: 'job.assign', manifest: this.sign(manifest) })
  }

  cut(): void {
    this.socket?.terminate()
  }

  cutAll(): void {
    for (const client of this.#ws.clients) client.terminate()
  }

  all<T extends HeardFrame['type']>(type: T): Of<T>[] {
    return this.frames.filter((frame): frame is Of<T> => frame.type === type)
  }

  /** The first frame of this type (about this job), present or to come. */
  heard<T extends HeardFrame['type']>(type: T, jobId?: string): Promise<Of<T>> {
    const isIt = (frame: Of<T>) => jobId === undefined || jobOf(frame) === jobId
    return waitUntil(`a ${type} frame`, () => this.all(type).find(isIt))
  }

  async session(number = 1): Promise<void> {
    await waitUntil(`session ${number}`, () => this.sessions >= number)
  }

  /** Throws when the agent said anything that the contract does not allow. */
  async close(): Promise<void> {
    this.cutAll()
    this.#http.closeAllConnections()
    await new Promise((resolve) => this.#http.close(resolve))
    if (this.problems.length > 0) throw new Error(`the agent broke the contract: ${this.problems.join('; ')}`)
  }

  async #answer(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    let text = ''
    for await (const part of request) text += String(part)
    const reply = (status: number, body: unknown) => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    }
    const keys = this.keys.map(({ link }) => link)
    const { serverId } = this
    if (request.url === '/agent/v1/prove') {
      const { tokenId, nonce } = proveRequest.parse(JSON.parse(text))
      const secret = this.#secrets.get(tokenId) ?? ''
      const proof: ServerProof = {
        purpose: 'enrol',
        tokenId,
        tokenKey: joinTokenKey(secret).publicKey,
        nonce,
        serverId,
      }
      return reply(200, { proof: this.#signText('server-proof/1', proof), keys })
    }
    if (request.url === '/agent/v1/enrol') {
      const asked = enrolRequest.parse(JSON.parse(text))
      const { publicKey, nonce, tokenId } = enrolment.parse(JSON.parse(asked.enrolment.text))
      const byToken = { text: asked.enrolment.text, signature: asked.tokenSignature }
      const token = joinTokenKey(this.#secrets.get(tokenId) ?? '')
      if (!openSignedText('agent-enrol/1', asked.enrolment, publicKey, verify)) this.problems.push('enrol')
      if (!openSignedText('join-token/1', byToken, token.publicKey, verify)) this.problems.push('join token')
      this.agentPublicKey = publicKey
      if (this.enrolStatus !== 200) return reply(this.enrolStatus, { error: { code: 'no', message: 'used' } })
      const { agentId, role, installId } = this
      const at = new Date().toISOString()
      const given: Enrolled = { agentId, serverId, role, installId, publicKey, nonce, at, ...this.enrolledAs }
      return reply(200, { enrolled: this.#signText('server-enrolled/1', given), keys })
    }
    if (request.url === '/agent/v1/rotate-key') {
      if (this.keyAnswer === 'none') return void response.destroy()
      const change = readKeyChange(rotateKeyRequest.parse(JSON.parse(text)).change, verify)
      const isNew = change?.previous === this.agentPublicKey
      if (!change || (!isNew && change.publicKey !== this.agentPublicKey)) return reply(409, {})
      if (isNew) this.#earlierKeys.push(this.agentPublicKey)
      this.agentPublicKey = change.publicKey
      if (this.keyAnswer === 'lost') return void response.destroy()
      const accepted: KeyAccepted = {
        agentId: this.agentId,
        serverId,
        publicKey: change.publicKey,
        ...this.keyAcceptedAs,
      }
      return reply(200, { accepted: this.#signText('agent-key-accepted/1', accepted), keys })
    }
    reply(404, {})
  }

  #serve(socket: WebSocket): void {
    this.socket = socket
    const nonce = randomBytes(24).toString('base64')
    const streams = new Map<number, string>()
    let agentNonce = ''
    socket.on('error', () => undefined)
    socket.on('message', (data: Buffer, isBinary) => {
      if (isBinary) return this.#takeLog(socket, streams, data)
      const parsed = agentFrame.safeParse(JSON.parse(data.toString()))
      if (!parsed.success) return void this.problems.push(`bad frame: ${data.toString().slice(0, 200)}`)
      const frame = this.#read(parsed.data)
      this.frames.push(frame)
      if (frame.type === 'open') {
        agentNonce = frame.nonce
        if (this.onOpen) return this.onOpen(socket, frame)
        return this.challenge(socket, agentNonce, nonce)
      }
      if (frame.type === 'hello') return this.#welcome(socket, frame, { agentNonce, nonce })
      if (this.onFrame?.(frame, socket)) return
      this.#handle(socket, streams, frame)
    })
  }

  /** The signatures are checked here, once for all. */
  #read(frame: AgentFrame): HeardFrame {
    switch (frame.type) {
      case 'hello':
        return { type: 'hello', ...agentHello.parse(this.#opened('agent-hello/2', frame.hello)) }
      case 'job.finished':
        return { ...frame, report: jobReport.parse(this.#opened('job-report/1', frame.report)) }
      case 'event':
        return { type: 'event', event: agentEvent.parse(this.#opened('agent-event/1', frame.event)) }
      default:
        return frame
    }
  }

  #opened(context: SigningContext, document: SignedDocument): unknown {
    const keys = [this.agentPublicKey, ...(context === 'agent-event/1' ? this.#earlierKeys : [])]
    if (!keys.some((key) => isSignedBy(context, document, key, verify)))
      this.problems.push(`the signature of ${context}`)
    return JSON.parse(document.text)
  }

  challenge(socket: WebSocket, agentNonce: string, nonce: string, signWith = this.current): void {
    const { agentId, serverId } = this
    const keys = this.keys.map(({ link }) => link)
    const statement = { agentId, agentNonce, nonce, serverId, wire: this.wire, version: PRODUCT_VERSION }
    const { link, key } = signWith
    const challenge = signDocument('server-challenge/2', statement, link.keyId, key.sign)
    sendTo(socket, { type: 'challenge', challenge, keys })
  }

  #welcome(socket: WebSocket, hello: Of<'hello'>, nonces: { agentNonce: string; nonce: string }): void {
    const { agentNonce, nonce, serverId } = hello
    if (agentNonce !== nonces.agentNonce || nonce !== nonces.nonce || serverId !== this.serverId)
      this.problems.push('hello answers another challenge')
    const welcome: Welcome = {
      type: 'welcome',
      sessionId: newId('session'),
      heartbeatSeconds: 0.2,
      leaseSeconds: 30,
      verdicts: hello.inventory.map(({ jobId, fence }) => ({ jobId, fence, verdict: 'keep' as const })),
      auditHead: null,
      eventSeq: 0,
      at: new Date().toISOString(),
    }
    sendTo(socket, { ...welcome, ...this.onHello?.(hello) })
    this.sessions += 1
  }

  #handle(socket: WebSocket, streams: Map<number, string>, frame: HeardFrame): void {
    if (frame.type === 'heartbeat') sendTo(socket, { type: 'heartbeat.ack', at: new Date().toISOString() })
    if (frame.type === 'event') this.#takeEvent(socket, frame)
    if (frame.type === 'log.open') {
      streams.set(frame.stream, frame.jobId)
      const offset = this.logs.get(frame.jobId)?.byteLength ?? 0
      sendTo(socket, { type: 'log.ack', stream: frame.stream, offset })
    }
    if (frame.type === 'job.finished') {
      const { jobId, fence } = frame
      sendTo(socket, { type: 'job.settled', jobId, fence, auditHead: null })
    }
  }

  #takeEvent(socket: WebSocket, { event }: Of<'event'>): void {
    if (event.agentId !== this.agentId) this.problems.push('an event of another agent')
    sendTo(socket, { type: 'event.ack', seq: event.seq, auditHead: null })
  }

  #takeLog(socket: WebSocket, streams: Map<number, string>, data: Buffer): void {
    const frame = decodeBulk(data)
    const jobId = frame && streams.get(frame.stream)
    if (!frame || !jobId) return void this.problems.push('bulk frame of no stream')
    const stored = this.logs.get(jobId) ?? Buffer.alloc(0)
    if (frame.offset !== stored.byteLength) this.problems.push(`log gap at ${frame.offset}`)
    const next = Buffer.concat([stored, frame.payload])
    this.logs.set(jobId, next)
    if (this.ackLogs) sendTo(socket, { type: 'log.ack', stream: frame.stream, offset: next.byteLength })
  }
}

function sendTo(socket: WebSocket, frame: ServerFrame): void {
  socket.send(JSON.stringify(frame))
}

function jobOf(frame: HeardFrame): string | null | undefined {
  if (frame.type === 'event') return frame.event.jobId
  return 'jobId' in frame ? frame.jobId : undefined
}

const DIGEST = `sha256:${'0'.repeat(64)}`
/** See core's table of kinds. */
function holds(kind: JobKind): Pick<ManifestOperation, 'operation'> & Partial<ManifestOperation> {
  const [operation] = KIND_RULES[kind].operations
  const plugin = { name: 'sync', repository: 'plugins/sync', digest: null }
  return { operation: operation!, ...(kind === 'sync' ? { plugin } : {}) }
}

/** In the form that is signed, with its own digests. */
function nested(manifest: JobManifest): object {
  const { jobId, fence, issuedAt, notBefore, expiresAt, version, content: _, ...body } = manifest
  return { ...nestManifest({ jobId, fence, issuedAt, notBefore, expiresAt }, body, sha256), version }
}
