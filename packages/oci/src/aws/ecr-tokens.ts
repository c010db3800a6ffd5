import type { Dispatcher } from 'undici'
import type { EcrTokenSource } from '../client/credentials.ts'
import { sendHttp } from '../client/http.ts'
import { OciError } from '../errors.ts'
import { signAwsRequest } from './sign-request.ts'
import type { AwsKeys, AwsRequest } from './sign-request.ts'

export interface EcrOptions {
  region: string
  keys: AwsKeys
  /** Taken on before ECR is asked, where the images belong to another account. */
  roleArn?: string | undefined
  /** Instead of AWS's public ones: a private endpoint of a network, or another partition. */
  endpoints?: { ecr?: string | undefined; sts?: string | undefined }
  dispatcher?: Dispatcher | undefined
  now: () => number
}

const SILENCE_MS = 30_000
const MAX_ANSWER_BYTES = 256 * 1024

/** ECR's own tokens by `GetAuthorizationToken`, with keys of an account that may read the images. */
export const ecrTokens = (options: EcrOptions): EcrTokenSource => ({
  authorizationToken: async () => {
    const { region, now } = options
    const keys = options.roleArn === undefined ? options.keys : await assumeRole(options, options.roleArn)
    const url = new URL(options.endpoints?.ecr ?? `https://api.ecr.${region}.${domainOf(region)}/`)
    const headers = {
      'content-type': 'application/x-amz-json-1.1',
      'x-amz-target': 'AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken',
    }
    const wire = { method: 'POST', url, headers, body: '{}' }
    const text = await send(options, wire, keys, 'ecr')
    return readToken(text, now())
  },
})

const assumeRole = async (options: EcrOptions, roleArn: string): Promise<AwsKeys> => {
  const { region } = options
  const url = new URL(options.endpoints?.sts ?? `https://sts.${region}.${domainOf(region)}/`)
  const headers = { 'content-type': 'application/x-www-form-urlencoded; charset=utf-8' }
  const fields = {
    Action: 'AssumeRole',
    Version: '2011-06-15',
    RoleArn: roleArn,
    RoleSessionName: 'tenon-build',
  }
  const body = new URLSearchParams(fields).toString()
  const text = await send(options, { method: 'POST', url, headers, body }, options.keys, 'sts')
  const read = (name: string) => new RegExp(`<${name}>\\s*([^<\\s]+)\\s*</${name}>`).exec(text)?.[1]
  const [accessKeyId, secretAccessKey, sessionToken] = ['AccessKeyId', 'SecretAccessKey', 'SessionToken'].map(
    read,
  )
  if (accessKeyId !== undefined && secretAccessKey !== undefined) {
    return { accessKeyId, secretAccessKey, sessionToken }
  }
  throw new OciError('RESPONSE_INVALID', `STS answered without credentials for ${roleArn}`)
}

const send = async (
  options: EcrOptions,
  wire: AwsRequest & { method: string },
  keys: AwsKeys,
  service: string,
): Promise<string> => {
  const scope = { region: options.region, service }
  const headers = signAwsRequest(wire, keys, scope, new Date(options.now()))
  const answer = await sendHttp(wire.url, {
    method: 'POST',
    headers,
    body: wire.body,
    silenceMs: SILENCE_MS,
    dispatcher: options.dispatcher,
  }).catch((cause: unknown) => {
    throw new OciError('UNAVAILABLE', `${wire.url.host} cannot be reached`, { cause })
  })
  let text = ''
  for await (const chunk of answer.body) {
    text += String(chunk)
    if (text.length > MAX_ANSWER_BYTES) throw new OciError('TOO_LARGE', `${wire.url.host} answered too much`)
  }
  if (answer.statusCode === 200) return text
  const said = /<Message>([^<]{1,300})|"[mM]essage"\s*:\s*"([^"]{1,300})/.exec(text)
  const why = (said?.[1] ?? said?.[2] ?? '').replaceAll(/[^\x20-\x7e]/g, '?')
  const code = answer.statusCode === 403 || answer.statusCode === 401 ? 'UNAUTHORIZED' : 'REFUSED'
  throw new OciError(
    code,
    `${wire.url.host} answered ${answer.statusCode} ${why}; check the AWS keys and role`,
  )
}

const readToken = (text: string, now: number): { authorizationToken: string; expiresAt: number } => {
  let data: { authorizationData?: { authorizationToken?: unknown; expiresAt?: unknown }[] } = {}
  try {
    data = JSON.parse(text) as typeof data
  } catch (cause) {
    throw new OciError('RESPONSE_INVALID', 'ECR answered without a token', { cause })
  }
  const { authorizationToken, expiresAt } = data.authorizationData?.[0] ?? {}
  if (typeof authorizationToken !== 'string')
    throw new OciError('RESPONSE_INVALID', 'ECR answered without a token')
  const until = typeof expiresAt === 'number' ? expiresAt * 1000 : now + 3600_000
  return { authorizationToken, expiresAt: until }
}

const domainOf = (region: string): string => (region.startsWith('cn-') ? 'amazonaws.com.cn' : 'amazonaws.com')
