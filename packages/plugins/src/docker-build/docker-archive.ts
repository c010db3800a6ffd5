import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { mkdir, open, rename, writeFile, type FileHandle } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import { sha256Digest } from '@tenon/oci'
import { PluginError } from '../sdk/errors.ts'
import { createTimeSettler } from './settle-times.ts'

type Fields = Record<string, unknown>
interface Part {
  at: number
  size: number
}

const BLOCK = 512
const MAX_JSON_BYTES = 8 * 1024 * 1024

/** Turns what `docker save` wrote into an OCI layout; times since `since` (seconds) become 0. */
export async function layoutOfArchive(archive: string, layout: string, since: number): Promise<void> {
  await mkdir(join(layout, 'blobs/sha256'), { recursive: true })
  const file = await open(archive)
  try {
    const parts = await partsOf(file)
    const [image] = (await readJson(file, parts, 'manifest.json')) as unknown as {
      Config: string
      Layers: string[]
    }[]
    if (image === undefined) throw unreadable('it names no image')
    const layers = []
    for (const name of image.Layers) {
      layers.push(await writeLayer(archive, partNamed(parts, name), layout, since))
    }
    const config = imageConfig(
      await readJson(file, parts, image.Config),
      layers.map(({ diffId }) => diffId),
    )
    const manifest = {
      schemaVersion: 2,
      mediaType: 'application/vnd.oci.image.manifest.v1+json',
      config: { mediaType: 'application/vnd.oci.image.config.v1+json', ...(await writeBlob(layout, config)) },
      layers: layers.map(({ digest, size }) => ({
        mediaType: 'application/vnd.oci.image.layer.v1.tar+gzip',
        digest,
        size,
      })),
    }
    const entry = { mediaType: manifest.mediaType, ...(await writeBlob(layout, manifest)) }
    await writeFile(join(layout, 'index.json'), JSON.stringify({ schemaVersion: 2, manifests: [entry] }))
    await writeFile(join(layout, 'oci-layout'), '{"imageLayoutVersion":"1.0.0"}')
  } finally {
    await file.close()
  }
}

/** Pure: what the engine notes about itself and its cache goes. */
export function imageConfig(config: Fields, diffIds: string[]): Fields {
  const kept = Object.entries(config).filter(
    ([key]) =>
      !key.startsWith('moby.') && !['container', 'container_config', 'docker_version', 'id'].includes(key),
  )
  return { ...Object.fromEntries(kept), rootfs: { type: 'layers', diff_ids: diffIds } }
}

/** Where each file of the archive lies; a link, as a layer used twice is, leads to what it names. */
async function partsOf(file: FileHandle): Promise<Map<string, Part>> {
  const parts = new Map<string, Part>()
  const links = new Map<string, string>()
  const header = Buffer.alloc(BLOCK)
  for (let at = 0; ;) {
    const { bytesRead } = await file.read(header, 0, BLOCK, at)
    if (bytesRead < BLOCK || header.every((byte) => byte === 0)) break
    const text = (from: number, to: number) => header.subarray(from, to).toString('utf8').split('\0')[0] ?? ''
    const size = Number.parseInt(text(124, 136).trim() || '0', 8)
    if (Number.isNaN(size)) throw unreadable('a size in it is no number')
    const name = [text(345, 500), text(0, 100)].filter((part) => part !== '').join('/')
    if (text(156, 157) === '2') links.set(name, join(dirname(name), text(157, 257)))
    else parts.set(name, { at: at + BLOCK, size })
    at += BLOCK + Math.ceil(size / BLOCK) * BLOCK
  }
  for (const [name, target] of links) {
    const part = parts.get(target)
    if (part !== undefined) parts.set(name, part)
  }
  return parts
}

function partNamed(parts: Map<string, Part>, name: string): Part {
  const part = parts.get(name)
  if (part === undefined) throw unreadable(`it has no ${JSON.stringify(name)}`)
  return part
}

async function readJson(file: FileHandle, parts: Map<string, Part>, name: string): Promise<Fields> {
  const { at, size } = partNamed(parts, name)
  if (size > MAX_JSON_BYTES) throw unreadable(`${JSON.stringify(name)} is too long`)
  const { buffer } = await file.read(Buffer.alloc(size), 0, size, at)
  return JSON.parse(buffer.toString('utf8')) as Fields
}

async function writeLayer(archive: string, { at, size }: Part, layout: string, since: number) {
  const [inner, outer] = [createCounter(), createCounter()]
  const partial = join(layout, 'layer.partial')
  await pipeline(
    createReadStream(archive, { start: at, end: at + size - 1 }),
    createTimeSettler(since),
    inner.pass,
    createGzip(),
    outer.pass,
    createWriteStream(partial),
  )
  const digest = outer.digest()
  await rename(partial, join(layout, 'blobs', digest.replace(':', '/')))
  return { diffId: inner.digest(), digest, size: outer.size() }
}

function createCounter() {
  const hash = createHash('sha256')
  let size = 0
  const pass = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      hash.update(chunk)
      size += chunk.byteLength
      done(null, chunk)
    },
  })
  return { pass, size: () => size, digest: () => `sha256:${hash.digest('hex')}` }
}

async function writeBlob(layout: string, value: Fields): Promise<{ digest: string; size: number }> {
  const bytes = Buffer.from(JSON.stringify(value))
  const digest = sha256Digest(bytes)
  await writeFile(join(layout, 'blobs', digest.replace(':', '/')), bytes)
  return { digest, size: bytes.byteLength }
}

function unreadable(why: string): PluginError {
  const message = `The image that docker saved cannot be read: ${why}.`
  return new PluginError('tool_failed', message, 'Use another version of docker, or buildah.')
}
