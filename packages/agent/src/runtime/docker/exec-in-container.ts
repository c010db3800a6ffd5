import http from 'node:http'
import type { Duplex } from 'node:stream'
import { z } from 'zod'
import { pause } from '../../ground/pause.ts'
import { createExecOutput } from '../exec-output.ts'
import type { ExecOutput } from '../exec-output.ts'
import { ExecError } from '../runtime.ts'
import type { ExecChunk, ExecOptions, JobExec } from '../runtime.ts'
import { engineProblem, readAnswer, readText } from './engine-http.ts'
import type { EngineCall } from './engine-http.ts'

const ENTER = 'cd "$HOME" || exit 1; exec "$@"'
const ENDING_TRIES = 50
const ENDING_MILLISECONDS = 20
const HEADER_BYTES = 8

const createdSchema = z.object({ Id: z.string() })
const endedSchema = z.object({ Running: z.boolean(), ExitCode: z.number().nullable() })

export interface ExecCalls {
  call(request: EngineCall): Promise<http.IncomingMessage>
  /** Where the engine listens, and the prefix of its paths. */
  connected(): Promise<{ socketPath: string; prefix: string }>
}

/** A command in a running container, over a connection that the engine hands over as it is. */
export async function execInContainer(
  engine: ExecCalls,
  container: string,
  command: string[],
  options: ExecOptions,
): Promise<JobExec> {
  const { tty, stdin, signal } = options
  const body = {
    AttachStdin: stdin !== undefined,
    AttachStdout: true,
    AttachStderr: true,
    Tty: tty,
    Cmd: ['/bin/sh', '-c', ENTER, 'tenon-exec', ...command],
  }
  const path = `/containers/${encodeURIComponent(container)}/exec`
  const { Id: id } = await readAnswer(
    await engine.call({ method: 'POST', path, body, signal }),
    createdSchema,
  )
  const socket = await hijack(await engine.connected(), id, tty)
  const output = createExecOutput((isFull) => (isFull ? socket.pause() : socket.resume()))
  const abort = () => socket.destroy()
  signal.addEventListener('abort', abort)
  if (signal.aborted) abort()
  const closed = new Promise<void>((resolve) => socket.on('close', resolve))
  read(socket, output, tty)
  if (stdin !== undefined) void feed(socket, stdin)
  const exitCode = closed.then(async () => {
    signal.removeEventListener('abort', abort)
    output.end()
    if (signal.aborted) throw new ExecError('broken', 'The command was left.')
    return codeOf(engine, id)
  })
  exitCode.catch(() => undefined)
  return { output, exitCode }
}

function hijack(
  { socketPath, prefix }: { socketPath: string; prefix: string },
  id: string,
  tty: boolean,
): Promise<Duplex> {
  const payload = JSON.stringify({ Detach: false, Tty: tty })
  return new Promise((resolve, reject) => {
    const request = http.request({
      socketPath,
      method: 'POST',
      path: `${prefix}/exec/${id}/start`,
      headers: {
        host: 'engine',
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(payload),
        connection: 'Upgrade',
        upgrade: 'tcp',
      },
      agent: false,
    })
    request.on('upgrade', (_answer, socket, head) => {
      if (head.length > 0) socket.unshift(head)
      resolve(socket)
    })
    request.on('response', (answer) => {
      readText(answer).then((text) => reject(engineProblem(answer.statusCode ?? 500, text)), reject)
    })
    request.on('error', (cause) => reject(new ExecError('broken', cause.message, { cause })))
    request.end(payload)
  })
}

/** With a terminal the bytes come as they are, without one in frames that name their stream. */
function read(socket: Duplex, output: ExecOutput, tty: boolean): void {
  let rest: Buffer = Buffer.alloc(0)
  socket.on('data', (bytes: Buffer) => {
    if (tty) return output.push({ stream: 'stdout', bytes })
    const parsed = parseFrames(Buffer.concat([rest, bytes]))
    rest = parsed.rest
    for (const chunk of parsed.chunks) output.push(chunk)
  })
  socket.on('error', () => undefined)
  socket.on('end', () => socket.destroy())
}

/** Pure: the whole frames at the start, and what is left. */
export function parseFrames(bytes: Buffer): { chunks: ExecChunk[]; rest: Buffer } {
  const chunks: ExecChunk[] = []
  let at = 0
  while (bytes.length - at >= HEADER_BYTES) {
    const end = at + HEADER_BYTES + bytes.readUInt32BE(at + 4)
    if (end > bytes.length) break
    const content = bytes.subarray(at + HEADER_BYTES, end)
    if (content.length > 0) chunks.push({ stream: bytes[at] === 2 ? 'stderr' : 'stdout', bytes: content })
    at = end
  }
  return { chunks, rest: bytes.subarray(at) }
}

async function feed(socket: Duplex, stdin: AsyncIterable<Uint8Array>): Promise<void> {
  try {
    for await (const bytes of stdin) socket.write(bytes)
  } finally {
    socket.end()
  }
}

/** The stream may end a moment before the engine knows the code. */
async function codeOf(engine: ExecCalls, id: string): Promise<number> {
  for (let round = 0; round < ENDING_TRIES; round++) {
    const answer = await engine.call({ method: 'GET', path: `/exec/${id}/json` })
    const { Running, ExitCode } = await readAnswer(answer, endedSchema)
    if (!Running && ExitCode !== null) return ExitCode
    await pause(ENDING_MILLISECONDS * (1 + round / 5), new AbortController().signal)
  }
  throw new ExecError('broken', 'The engine does not tell how the command ended.')
}
