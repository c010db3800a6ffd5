import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sha256Digest } from '@tenon/oci'

type Fields = Record<string, unknown>

const EPOCH = '1970-01-01T00:00:00Z'

/** Rewrites an image in a layout folder so that it says nothing of the machine and the moment of its build. */
export async function normalizeLayout(layout: string): Promise<void> {
  const index = (await readJson(join(layout, 'index.json'))) as { manifests: Fields[] }
  const [entry] = index.manifests
  if (entry === undefined) return
  const manifest = await readBlob(layout, entry['digest'])
  const config = await readBlob(layout, (manifest['config'] as Fields)['digest'])
  const newConfig = await writeBlob(layout, normalizeConfig(config))
  const newManifest = await writeBlob(layout, {
    ...normalizeManifest(manifest),
    config: { ...(manifest['config'] as Fields), ...newConfig },
  })
  await writeFile(
    join(layout, 'index.json'),
    JSON.stringify({ ...index, manifests: [{ ...entry, ...newManifest }] }),
  )
  if (newManifest.digest !== entry['digest']) await rm(blobPath(layout, entry['digest']), { force: true })
}

/** Pure: builders put a hash of owners and times of the source into the history, and their own version into a label. */
export function normalizeConfig(image: Fields): Fields {
  const history = ((image['history'] ?? []) as Fields[]).map(({ comment, ...step }) => ({
    ...step,
    ...(step['created'] === undefined ? {} : { created: EPOCH }),
    ...(typeof step['created_by'] === 'string' ? { created_by: withoutHashes(step['created_by']) } : {}),
    ...(typeof comment === 'string' && comment.startsWith('FROM ')
      ? {}
      : comment === undefined
        ? {}
        : { comment }),
  }))
  const config = { ...(image['config'] as Fields | undefined) }
  const labels = { ...(config['Labels'] as Fields | undefined) }
  delete labels['io.buildah.version']
  if (Object.keys(labels).length === 0) delete config['Labels']
  else config['Labels'] = labels
  return { ...image, created: EPOCH, config, history }
}

function withoutHashes(text: string): string {
  return text.replaceAll(/\b(file|dir|multi):[0-9a-f]{64}\b/g, '$1')
}

/** Pure: a base without a name is a step of this very build. */
export function normalizeManifest(manifest: Fields): Fields {
  const { annotations, ...rest } = manifest
  const kept = { ...(annotations as Record<string, string> | undefined) }
  if (kept['org.opencontainers.image.base.name'] === '') {
    delete kept['org.opencontainers.image.base.name']
    delete kept['org.opencontainers.image.base.digest']
  }
  return Object.keys(kept).length === 0 ? rest : { ...rest, annotations: kept }
}

function blobPath(layout: string, digest: unknown): string {
  return join(layout, 'blobs', String(digest).replace(':', '/'))
}

async function readBlob(layout: string, digest: unknown): Promise<Fields> {
  return (await readJson(blobPath(layout, digest))) as Fields
}

async function readJson(path: string): Promise<unknown> {
  return JSON.parse(await readFile(path, 'utf8')) as unknown
}

async function writeBlob(layout: string, value: Fields): Promise<{ digest: string; size: number }> {
  const bytes = Buffer.from(JSON.stringify(value))
  const digest = sha256Digest(bytes)
  await writeFile(blobPath(layout, digest), bytes)
  return { digest, size: bytes.byteLength }
}
