import { createHash } from 'node:crypto'

export const MANIFEST = 'application/vnd.oci.image.manifest.v1+json'

/** The vendor registry over plain HTTP, as whoever holds a bearer sees it. */
export function rawRegistry(url: string, bearer: string) {
  const headers = { authorization: `Bearer ${bearer}` }
  const call = async (
    method: 'GET' | 'HEAD' | 'PUT' | 'POST' | 'DELETE',
    path: string,
    body?: Uint8Array<ArrayBuffer>,
    type = 'application/octet-stream',
  ) => {
    const answer = await fetch(`${url}/v2/${path}`, {
      method,
      headers: { ...headers, ...(body === undefined ? {} : { 'content-type': type }) },
      ...(body === undefined ? {} : { body }),
    })
    return { status: answer.status, body: Buffer.from(await answer.arrayBuffer()) }
  }
  const pushBlob = async (repository: string, bytes: Uint8Array<ArrayBuffer>) => {
    const digest = digestOf(bytes)
    const { status } = await call('POST', `${repository}/blobs/uploads/?digest=${digest}`, bytes)
    return { status, descriptor: { mediaType: 'application/octet-stream', digest, size: bytes.byteLength } }
  }
  return {
    call,
    get: async (path: string) => (await call('GET', path)).status,
    pushBlob,
    /** A manifest with one layer; `more` is put into it. */
    async push(repository: string, content: string, more: object = {}) {
      const { descriptor: config } = await pushBlob(repository, Buffer.from('{}'))
      const { descriptor: layer } = await pushBlob(repository, Buffer.from(content))
      const bytes = Buffer.from(
        JSON.stringify({ schemaVersion: 2, mediaType: MANIFEST, config, layers: [layer], ...more }),
      )
      const digest = digestOf(bytes)
      const { status } = await call('PUT', `${repository}/manifests/${digest}`, bytes, MANIFEST)
      return { status, digest, layer: layer.digest, size: bytes.byteLength, mediaType: MANIFEST }
    },
  }
}

const digestOf = (bytes: Uint8Array) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`

/** The registry's token endpoint, as the distribution token flow calls it. */
export async function redeem(url: string, credential: { username: string; password: string }) {
  const pair = Buffer.from(`${credential.username}:${credential.password}`).toString('base64')
  const answer = await fetch(`${url}/v2/token?service=tenon`, { headers: { authorization: `Basic ${pair}` } })
  const body = (await answer.json()) as { token?: string; expires_in?: number }
  return { status: answer.status, bearer: body.token ?? '', expiresIn: body.expires_in }
}
