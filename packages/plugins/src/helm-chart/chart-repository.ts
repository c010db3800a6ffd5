import { createWriteStream } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { newestFitting } from '@tenon/core'
import {
  downloadFile,
  isDigest,
  isOciError,
  parseImageName,
  pullArtifactLayers,
  type Digest,
} from '@tenon/oci'
import { MEDIA_TYPES } from '@tenon/protocol'
import { parse } from 'yaml'
import type { ImageSources } from '../build/image-sources.ts'
import { PluginError } from '../sdk/errors.ts'
import type { OperationContext } from '../sdk/plugin.ts'

export interface WantedChart {
  /** `https://…` with an index.yaml, or `oci://…`. */
  repository: string
  name: string
  /** A version or a range; empty means the newest. */
  version: string
}

export interface FetchedChart {
  file: string
  version: string
  /** For the record. */
  from: string
}

const MAX_INDEX_BYTES = 64 * 1024 * 1024
const MAX_CHART_BYTES = 64 * 1024 * 1024

/** An archive of a chart, from a chart repository or a registry, as a file in `folder`. */
export async function fetchChart(
  context: OperationContext,
  sources: ImageSources,
  wanted: WantedChart,
  folder: string,
): Promise<FetchedChart> {
  try {
    if (wanted.repository.startsWith('oci://')) return await fromRegistry(context, sources, wanted, folder)
    if (/^https?:\/\//.test(wanted.repository)) return await fromServer(context, sources, wanted, folder)
  } catch (cause) {
    if (!isOciError(cause) || cause.code === 'ABORTED') throw cause
    throw missing(wanted, cause.message, cause)
  }
  throw missing(wanted, 'its repository is neither https:// nor oci://')
}

async function fromServer(
  context: OperationContext,
  sources: ImageSources,
  wanted: WantedChart,
  folder: string,
): Promise<FetchedChart> {
  const base = new URL(wanted.repository.replace(/\/*$/, '/'))
  const options = {
    credential: await sources.credential(base.host),
    dispatcher: sources.dispatcher,
    signal: context.signal,
  }
  const indexFile = join(folder, 'index.yaml')
  context.log(`reading ${base.origin}${base.pathname}index.yaml`)
  await downloadFile(new URL('index.yaml', base), indexFile, { ...options, maxBytes: MAX_INDEX_BYTES })
  const entries = readIndex(await readFile(indexFile, 'utf8'), wanted)
  const version = newestFitting(
    entries.map((entry) => entry.version),
    wanted.version,
  )
  const entry = entries.find((each) => each.version === version)
  if (version === undefined || entry === undefined)
    throw missing(wanted, noVersion(entries.map((e) => e.version)))
  const address = entry.urls[0]
  if (address === undefined || !URL.canParse(address, base.href))
    throw missing(wanted, 'the index names no archive')
  if (address.startsWith('oci://')) {
    const { repository, name } = splitOci(address.replace(/:[^/:]+$/, ''))
    return fromRegistry(context, sources, { repository, name, version }, folder)
  }
  const url = new URL(address, base)
  // Credentials of the repository are for its own host only.
  const isOwn = url.host === base.host
  const file = join(folder, `${wanted.name}-${version}.tgz`)
  context.log(`downloading ${url.origin}${url.pathname}`)
  const digest = `sha256:${entry.digest ?? ''}`
  await downloadFile(url, file, {
    ...options,
    credential: isOwn ? options.credential : undefined,
    maxBytes: MAX_CHART_BYTES,
    ...(isDigest(digest) ? { digest } : {}),
  })
  return { file, version, from: `${url.origin}${url.pathname}` }
}

async function fromRegistry(
  context: OperationContext,
  sources: ImageSources,
  wanted: WantedChart,
  folder: string,
): Promise<FetchedChart> {
  const address = `${wanted.repository.replace(/\/*$/, '')}/${wanted.name}`.slice('oci://'.length)
  const { registry, repository } = parseImageName(address)
  const client = sources.client(registry)
  const isExact = /^v?\d+\.\d+\.\d+/.test(wanted.version)
  const tags = isExact
    ? [wanted.version]
    : (await client.listTags(repository)).map((tag) => tag.replaceAll('_', '+'))
  const version = isExact ? wanted.version : newestFitting(tags, wanted.version)
  if (version === undefined) throw missing(wanted, noVersion(tags))
  context.log(`pulling oci://${registry}/${repository} ${version}`)
  const { digest } = await client.getManifest(repository, version.replaceAll('+', '_'))
  const pulled = await pullArtifactLayers({ client, repository, digest, signal: context.signal })
  const layer = pulled.layers.find(({ mediaType }) => mediaType === MEDIA_TYPES.helmChart)
  if (pulled.manifest.config?.mediaType !== MEDIA_TYPES.helmConfig || layer === undefined) {
    throw missing(wanted, `oci://${registry}/${repository} ${version} is no chart`)
  }
  const file = join(folder, `${wanted.name}-${version}.tgz`)
  await pipeline(await layer.open(), createWriteStream(file))
  return { file, version, from: `oci://${registry}/${repository}@${digest as Digest}` }
}

function splitOci(address: string): { repository: string; name: string } {
  const slash = address.lastIndexOf('/')
  return { repository: address.slice(0, slash), name: address.slice(slash + 1) }
}

interface IndexEntry {
  version: string
  urls: string[]
  digest: string | undefined
}

function readIndex(text: string, wanted: WantedChart): IndexEntry[] {
  let index: { entries?: Record<string, unknown> } | null
  try {
    index = parse(text, { maxAliasCount: 1000, logLevel: 'silent' }) as typeof index
  } catch (cause) {
    throw missing(wanted, 'the index.yaml of its repository is not YAML', cause)
  }
  const entries = index?.entries?.[wanted.name]
  if (!Array.isArray(entries)) throw missing(wanted, 'its repository has no such chart')
  return entries.flatMap((entry) => {
    const { version, urls, digest } = (entry ?? {}) as { version?: unknown; urls?: unknown; digest?: unknown }
    if (typeof version !== 'string' || !Array.isArray(urls)) return []
    const addresses = urls.filter((url): url is string => typeof url === 'string')
    return [{ version, urls: addresses, digest: typeof digest === 'string' ? digest : undefined }]
  })
}

function noVersion(versions: string[]): string {
  const some = versions.slice(0, 10).join(', ')
  return `none of its versions fits${some === '' ? '' : `; there are ${some}`}`
}

function missing(wanted: WantedChart, why: string, cause?: unknown): PluginError {
  const message = `The chart ${wanted.name} ${wanted.version || '(newest)'} of ${wanted.repository} cannot be had: ${why}.`
  const remedy =
    'Correct its repository, name or version; lend the build agent credentials where it asks for some.'
  return new PluginError('dependency_missing', message, remedy, cause)
}
