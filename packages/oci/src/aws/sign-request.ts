import { createHash, createHmac } from 'node:crypto'

export interface AwsKeys {
  accessKeyId: string
  secretAccessKey: string
  sessionToken?: string | undefined
}

export interface AwsRequest {
  method: string
  url: URL
  /** Lower-case names. `host` and the date are added. */
  headers: Record<string, string>
  body: string
}

/** Pure: the headers with which AWS accepts the request, by Signature Version 4. */
export const signAwsRequest = (
  request: AwsRequest,
  keys: AwsKeys,
  scope: { region: string; service: string },
  at: Date,
): Record<string, string> => {
  const stamp = at.toISOString().replaceAll(/[:-]|\.\d{3}/g, '')
  const day = stamp.slice(0, 8)
  const headers: Record<string, string> = {
    ...request.headers,
    host: request.url.host,
    'x-amz-date': stamp,
    ...(keys.sessionToken === undefined ? {} : { 'x-amz-security-token': keys.sessionToken }),
  }
  const names = Object.keys(headers).toSorted()
  const signed = names.join(';')
  const canonical = [
    request.method,
    encodePath(request.url.pathname),
    canonicalQuery(request.url),
    ...names.map((name) => `${name}:${(headers[name] ?? '').trim().replaceAll(/ +/g, ' ')}`),
    '',
    signed,
    sha256(request.body),
  ].join('\n')
  const place = `${day}/${scope.region}/${scope.service}/aws4_request`
  const text = ['AWS4-HMAC-SHA256', stamp, place, sha256(canonical)].join('\n')
  const key = [day, scope.region, scope.service, 'aws4_request'].reduce<Buffer | string>(
    (derived, part) => hmac(derived, part),
    `AWS4${keys.secretAccessKey}`,
  )
  const signature = hmac(key, text).toString('hex')
  const credential = `Credential=${keys.accessKeyId}/${place}`
  return {
    ...headers,
    authorization: `AWS4-HMAC-SHA256 ${credential}, SignedHeaders=${signed}, Signature=${signature}`,
  }
}

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')

const hmac = (key: Buffer | string, text: string): Buffer => createHmac('sha256', key).update(text).digest()

/** Sorted by name, then value; what RFC 3986 does not reserve stays as it is. */
const canonicalQuery = (url: URL): string =>
  [...url.searchParams]
    .map(([name, value]) => `${encode(name)}=${encode(value)}`)
    .toSorted()
    .join('&')

const encodePath = (path: string): string =>
  path
    .split('/')
    .map((step) => encode(decodeURIComponent(step)))
    .join('/')

const encode = (text: string): string =>
  encodeURIComponent(text).replaceAll(
    /[!'()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  )
