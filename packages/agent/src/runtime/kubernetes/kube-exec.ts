import { WebSocket } from 'ws'
import { z } from 'zod'
import { createExecOutput } from '../exec-output.ts'
import type { ExecChunk } from '../runtime.ts'
import type { KubeAccess } from './kube-access.ts'
import { KubeError } from './kube-error.ts'
import { kubeProblem, parseJson } from './kube-http.ts'

/** v5 can close stdin; older servers know v4 alone. */
const PROTOCOLS = ['v5.channel.k8s.io', 'v4.channel.k8s.io']
const CHANNEL = { stdin: 0, stdout: 1, stderr: 2, error: 3, close: 255 } as const
const OPEN_MILLISECONDS = 15_000
/** Load balancers cut what is silent; a peer that is gone without a word is noticed by this. */
const PING_MILLISECONDS = 15_000

const statusSchema = z.object({
  status: z.string().optional(),
  message: z.string().optional(),
  reason: z.string().optional(),
  details: z
    .object({ causes: z.array(z.object({ reason: z.string().optional(), message: z.string().optional() })) })
    .partial()
    .optional(),
})

export interface ExecTarget {
  namespace: string
  pod: string
  container: string
  command: string[]
  tty?: boolean
  stdin?: boolean
  signal: AbortSignal
}

/** A command in a container of a pod. */
export interface PodExec {
  output: AsyncIterable<ExecChunk>
  exitCode: Promise<number>
  /** Where the server cannot close stdin alone, its end is not told. */
  write(bytes: Uint8Array): void
  endInput(): void
  close(): void
}

export async function execInPod(access: KubeAccess, target: ExecTarget): Promise<PodExec> {
  const socket = await openSocket(access, target)
  const canEndInput = socket.protocol === 'v5.channel.k8s.io'
  const output = createExecOutput((isFull) => (isFull ? socket.pause() : socket.resume()))
  const ping = keepAlive(socket)
  const abort = () => socket.terminate()
  target.signal.addEventListener('abort', abort)
  if (target.signal.aborted) abort()
  const exitCode = new Promise<number>((resolve, reject) => {
    let outcome: number | KubeError | undefined
    socket.on('message', (data: Buffer) => {
      const bytes = data.subarray(1)
      if (data[0] === CHANNEL.stdout && bytes.length > 0) output.push({ stream: 'stdout', bytes })
      if (data[0] === CHANNEL.stderr && bytes.length > 0) output.push({ stream: 'stderr', bytes })
      if (data[0] === CHANNEL.error && bytes.length > 0) outcome = outcomeOf(bytes.toString('utf8'))
      // Everything that the command printed was sent before its status.
      if (outcome !== undefined) socket.close()
    })
    socket.on('error', () => undefined)
    socket.on('close', () => {
      clearInterval(ping)
      target.signal.removeEventListener('abort', abort)
      output.end()
      if (typeof outcome === 'number') resolve(outcome)
      else reject(outcome ?? new KubeError('unreachable', 'The connection to the command broke off.'))
    })
  })
  exitCode.catch(() => undefined)
  const send = (channel: number, bytes: Uint8Array) => {
    if (socket.readyState === WebSocket.OPEN) socket.send(Buffer.concat([Buffer.of(channel), bytes]))
  }
  return {
    output,
    exitCode,
    write: (bytes) => send(CHANNEL.stdin, bytes),
    endInput: () => (canEndInput ? send(CHANNEL.close, Buffer.of(CHANNEL.stdin)) : undefined),
    close: () => socket.terminate(),
  }
}

async function openSocket(access: KubeAccess, target: ExecTarget): Promise<WebSocket> {
  const { namespace, pod, container, command, tty = false, stdin = false, signal } = target
  const query = new URLSearchParams({ container, stdout: 'true', stderr: String(!tty) })
  if (stdin) query.set('stdin', 'true')
  if (tty) query.set('tty', 'true')
  for (const word of command) query.append('command', word)
  const url = `${access.server.replace(/^http/, 'ws')}/api/v1/namespaces/${namespace}/pods/${pod}/exec?${query.toString()}`
  const token = await access.token()
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
  const socket = new WebSocket(url, PROTOCOLS, {
    ...access.tls,
    headers,
    handshakeTimeout: OPEN_MILLISECONDS,
    perMessageDeflate: false,
  })
  return new Promise((resolve, reject) => {
    const abort = () => socket.terminate()
    signal.addEventListener('abort', abort)
    const settle = (act: () => void) => {
      signal.removeEventListener('abort', abort)
      act()
    }
    socket.on('open', () => settle(() => resolve(socket)))
    socket.on('unexpected-response', (_request, answer) => {
      let text = ''
      answer.on('data', (bytes: Buffer) => (text += bytes.toString('utf8')))
      answer.on('close', () => {
        socket.terminate()
        settle(() => reject(kubeProblem(answer.statusCode ?? 500, text)))
      })
    })
    socket.on('error', (cause) => settle(() => reject(signal.aborted ? signal.reason : noWay(access, cause))))
  })
}

function keepAlive(socket: WebSocket): NodeJS.Timeout {
  let answered = true
  socket.on('pong', () => (answered = true))
  socket.on('message', () => (answered = true))
  const timer = setInterval(() => {
    if (!answered) return socket.terminate()
    answered = false
    socket.ping()
  }, PING_MILLISECONDS)
  return timer.unref()
}

/** The exit code of the status that ends an exec, or why there is none. */
export function outcomeOf(text: string): number | KubeError {
  const status = statusSchema.safeParse(parseJson(text))
  if (!status.success) return new KubeError('unexpected', 'The API server did not say how the command ended.')
  if (status.data.status === 'Success') return 0
  const code = status.data.details?.causes?.find(({ reason }) => reason === 'ExitCode')?.message
  if (code !== undefined && Number.isInteger(Number(code))) return Number(code)
  return new KubeError('refused', status.data.message ?? 'The command could not be run.')
}

function noWay(access: KubeAccess, cause: Error): KubeError {
  const message = `No command can be run over ${access.server}: ${cause.message}.`
  return new KubeError('unreachable', message, { cause })
}
