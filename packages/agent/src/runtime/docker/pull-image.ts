import type { IncomingMessage } from 'node:http'
import { z } from 'zod'
import { EngineError, engineProblem, parseJson, readText } from './engine-http.ts'
import type { EngineCall } from './engine-http.ts'

/** A login of the registry that an image comes from, as the engine takes it. */
export type RegistryAuth = { username: string; password: string } | { identityToken: string }

const SILENCE_MILLISECONDS = 300_000
const progressSchema = z.object({ error: z.string().optional() })

/** The engine answers 200 and tells a failure as a line of its progress; Podman may also answer 500. */
export async function pullImage(
  call: (request: EngineCall) => Promise<IncomingMessage>,
  reference: string,
  auth: RegistryAuth | undefined,
): Promise<void> {
  const answer = await call({
    method: 'POST',
    path: '/images/create',
    query: { fromImage: reference },
    headers: auth === undefined ? {} : { 'x-registry-auth': authHeader(auth, reference) },
    silenceMilliseconds: SILENCE_MILLISECONDS,
  })
  const text = await readText(answer)
  if ((answer.statusCode ?? 0) >= 400) throw engineProblem(answer.statusCode ?? 0, text)
  for (const line of text.split('\n')) {
    const progress = progressSchema.safeParse(parseJson(line))
    if (progress.success && progress.data.error !== undefined) {
      throw new EngineError('refused', progress.data.error)
    }
  }
}

/** Pure. Both engines read base64url of JSON. */
export function authHeader(auth: RegistryAuth, reference: string): string {
  const { host: serveraddress } = splitReference(reference)
  const login =
    'identityToken' in auth
      ? { identitytoken: auth.identityToken }
      : { username: auth.username, password: auth.password }
  return Buffer.from(JSON.stringify({ ...login, serveraddress })).toString('base64url')
}

/** Pure: host and repository of a reference, without tag or digest. */
export function splitReference(reference: string): { host: string; repository: string } {
  const [host = '', ...rest] = reference.split('/')
  const repository = rest
    .join('/')
    .replace(/@.*$/, '')
    .replace(/:[^/:]*$/, '')
  return { host, repository }
}
