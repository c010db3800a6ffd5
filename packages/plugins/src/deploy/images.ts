import { parseClosure, ANNOTATIONS } from '@tenon/core'
import { isDigest, parseManifest } from '@tenon/oci'
import type { ComponentJobConfig, JobContext } from '@tenon/protocol'
import { PluginError } from '../sdk/errors.ts'
import type { OperationContext } from '../sdk/plugin.ts'
import { openRegistry } from '../sdk/registry.ts'

/** Component types whose artifact is an image itself. */
const IMAGE_TYPES: readonly string[] = ['container_image', 'docker_build', 'external_image']

/** What templates find under `outputs.image` of a component that is an image. */
export interface ImageOutputs {
  registry: string
  /** With the registry: a chart writes `repository:tag`. */
  repository: string
  digest: string
  /** Fits a label, which a digest does not; together with the repository it is known to stand for the digest. */
  tag: string
  reference: string
  [key: string]: string
}

export function isImageType(type: string): boolean {
  return IMAGE_TYPES.includes(type)
}

export function imageOutputs(node: string, artifact: { repository: string; digest: string }): ImageOutputs {
  const repository = `${node}/${artifact.repository}`
  const tag = tagOf(artifact.digest)
  const { digest } = artifact
  return { registry: node, repository, digest, tag, reference: `${repository}@${digest}` }
}

/** `host[:port]` from which the nodes of this install pull. */
export function nodeRegistry(job: JobContext): string {
  if (job.registry === null) return 'registry.invalid'
  return job.registry.nodeAddress ?? new URL(job.registry.url).host
}

/** The images that may run: what came with the artifact, and the image components of the install. */
export class KnownImages {
  readonly #targets = new Map<string, string>()

  /** `image` is named as the chart or manifest names it. */
  add(image: string, target: string): void {
    const parts = splitImage(image)
    if (parts === undefined) return
    const at = target.lastIndexOf('@')
    for (const key of [keyOf(parts), `${parts.name}@${target.slice(at + 1)}`, target]) {
      this.#targets.set(key, target)
    }
  }

  addComponent(node: string, artifact: { repository: string; digest: string }): void {
    const { repository, tag, reference } = imageOutputs(node, artifact)
    this.add(`${repository}:${tag}`, reference)
    this.add(repository, reference)
  }

  /** Where the nodes find it by digest; undefined when it is outside the closure. */
  find(image: string): string | undefined {
    const direct = this.#targets.get(image)
    if (direct !== undefined) return direct
    const parts = splitImage(image)
    return parts === undefined ? undefined : this.#targets.get(keyOf(parts))
  }

  get references(): string[] {
    return [...new Set(this.#targets.values())]
  }
}

export async function knownImages(
  context: OperationContext,
  config: ComponentJobConfig,
): Promise<KnownImages> {
  const known = new KnownImages()
  const node = nodeRegistry(context.job)
  for (const component of Object.values(config.components)) {
    if (isImageType(component.type)) known.addComponent(node, component.artifact)
  }
  const artifact = context.operation.artifacts.find(({ name }) => name === 'artifact')
  if (artifact === undefined || isImageType(config.type)) return known
  for (const { image, digest } of await closureOf(context, artifact)) {
    known.add(image, `${node}/${artifact.repository}@${digest}`)
  }
  return known
}

async function closureOf(context: OperationContext, artifact: { repository: string; digest: string }) {
  const { signal, job } = context
  const client = await openRegistry({ ...context, now: Date.now }, job.registry)
  const { repository, digest } = artifact
  if (!isDigest(digest)) throw unreadable(artifact, 'is not named by a digest')
  const fetched = await client.getManifest(repository, digest, { signal })
  const { annotations } = parseManifest(fetched.mediaType, fetched.bytes)
  const closure = parseClosure(annotations?.[ANNOTATIONS.closure])
  if (closure === undefined) throw unreadable(artifact, 'has a closure that is no list of images')
  return closure
}

function unreadable(artifact: { repository: string; digest: string }, why: string): PluginError {
  const message = `${artifact.repository}@${artifact.digest} ${why}.`
  return new PluginError('artifact_invalid', message, 'Build it again and deploy the new build.')
}

interface ImageParts {
  /** Registry and repository. */
  name: string
  tag: string | undefined
  digest: string | undefined
}

function keyOf({ name, tag, digest }: ImageParts): string {
  return digest === undefined ? `${name}:${tag ?? 'latest'}` : `${name}@${digest}`
}

/** As container engines read a name: `redis` is `docker.io/library/redis:latest`. Undefined: no image's name. */
export function splitImage(image: string): ImageParts | undefined {
  const match = /^([^@\s]+?)(?::([A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?(?:@(sha256:[0-9a-f]{64}))?$/.exec(image)
  if (match === null) return undefined
  const [, path = '', tag, digest] = match
  const slash = path.indexOf('/')
  const first = slash < 0 ? '' : path.slice(0, slash)
  const isHost = /[.:]/.test(first) || first === 'localhost'
  const host = isHost ? first : 'docker.io'
  const repository = isHost ? path.slice(slash + 1) : path
  const isOfficial = /^(index\.)?docker\.io$/.test(host)
  const name = `${isOfficial ? 'docker.io' : host}/${isOfficial && !repository.includes('/') ? 'library/' : ''}${repository}`
  return { name, tag, digest }
}

function tagOf(digest: string): string {
  return `sha256-${digest.slice('sha256:'.length, 'sha256:'.length + 16)}`
}
