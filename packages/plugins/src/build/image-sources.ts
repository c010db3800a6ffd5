import { readFile } from 'node:fs/promises'
import {
  anonymous,
  basicCredentials,
  createRegistryClient,
  ecrCredentials,
  ecrTokens,
  isOciError,
  parseCredentialFile,
  parseImageName,
  proxyDispatcher,
  registryUrl,
  type CredentialFile,
  type Credentials,
  type Digest,
  type FetchedManifest,
  type ImageReference,
  type RegistryClient,
} from '@tenon/oci'
import { z } from 'zod'
import { isPluginError, PluginError } from '../sdk/errors.ts'
import type { OperationContext } from '../sdk/plugin.ts'
import { lentFile } from './lent.ts'

/** The registries of others, each with what the build agent was lent for it. */
export interface ImageSources {
  client(registry: string): RegistryClient
  /** The manifest that the name stands for now. `where` says who names it. */
  resolve(image: string, where: string): Promise<ResolvedImage>
  /** Of a file server, for chart repositories. */
  credential(host: string): Promise<{ username: string; password: string } | undefined>
  dispatcher: ReturnType<typeof proxyDispatcher>
}

export interface ResolvedImage {
  reference: ImageReference
  client: RegistryClient
  manifest: FetchedManifest
  digest: Digest
}

export interface ImageSourceOptions {
  /** Roles to take on in ECR, by registry. */
  roles?: Record<string, string>
}

const awsFile = z.object({
  accessKeyId: z.string().min(1),
  secretAccessKey: z.string().min(1),
  sessionToken: z.string().optional(),
  endpoints: z.object({ ecr: z.url().optional(), sts: z.url().optional() }).default({}),
  /** Further hosts that are ECR's, such as private endpoints: by host, their region. */
  registries: z.record(z.string(), z.string()).default({}),
})

export async function openImageSources(
  context: OperationContext,
  options: ImageSourceOptions = {},
): Promise<ImageSources> {
  const lent = await readLent(context)
  const dispatcher = proxyDispatcher(context.baseEnv)
  const clients = new Map<string, RegistryClient>()
  const credentialsOf = (registry: string): Credentials => {
    const known = lent.file?.(registry)
    if (known !== undefined) return known
    const region = ecrRegion(registry) ?? lent.aws?.registries[registry]
    if (lent.aws !== undefined && region !== undefined) {
      const { endpoints, registries: _registries, ...keys } = lent.aws
      const roleArn = options.roles?.[registry]
      return ecrCredentials(
        ecrTokens({ region, keys, roleArn, endpoints, dispatcher, now: Date.now }),
        Date.now,
      )
    }
    if (lent.google !== undefined && isGoogle(registry))
      return basicCredentials('oauth2accesstoken', lent.google)
    return anonymous
  }
  const client = (registry: string): RegistryClient => {
    const known = clients.get(registry)
    if (known) return known
    const opened = createRegistryClient({
      url: registryUrl(registry),
      credentials: credentialsOf(registry),
      // Registries send readers on to the storage below them; no credential goes along.
      followRedirect: (url) => url.protocol === 'https:',
      signal: context.signal,
      ...(dispatcher === undefined ? {} : { dispatcher }),
    })
    clients.set(registry, opened)
    return opened
  }
  return {
    client,
    dispatcher,
    resolve: (image, where) => resolve(client, image, where),
    credential: async (host) => {
      const found = await lent.file?.(host)?.()
      return found !== undefined && 'username' in found ? found : undefined
    },
  }
}

async function resolve(
  client: (registry: string) => RegistryClient,
  image: string,
  where: string,
): Promise<ResolvedImage> {
  try {
    const reference = parseImageName(image)
    const from = client(reference.registry)
    const manifest = await from.getManifest(
      reference.repository,
      reference.digest ?? reference.tag ?? 'latest',
    )
    return { reference, client: from, manifest, digest: pinnable(manifest.digest, image) }
  } catch (cause) {
    if (isOciError(cause, 'ABORTED') || isPluginError(cause)) throw cause
    const why = cause instanceof Error ? cause.message : String(cause)
    const message = `The image ${JSON.stringify(image)}, named by ${where}, cannot be pinned to a digest: ${why}.`
    const remedy =
      'Correct the name, or lend the build agent a registries.json with credentials for its registry.'
    throw new PluginError('image_unresolved', message, remedy, cause)
  }
}

/** Manifests of jobs and the audit name artifacts by sha256 and nothing else. */
export function pinnable(digest: Digest, image: string): Digest {
  if (digest.startsWith('sha256:')) return digest
  const message = `The image ${JSON.stringify(image)} is known by ${digest}, and builds pin to sha256 digests.`
  const remedy = 'Name it by its sha256 digest, or copy it under one into a registry of yours.'
  throw new PluginError('image_unresolved', message, remedy)
}

async function readLent(context: OperationContext): Promise<Lent> {
  const [registries, aws, google] = await Promise.all([
    readIfLent(context, 'registries.json'),
    readIfLent(context, 'aws.json'),
    readIfLent(context, 'google-token'),
  ])
  return {
    file: registries === undefined ? undefined : parseCredentialFile(registries),
    aws: aws === undefined ? undefined : parseAws(aws),
    google: google?.trim(),
  }
}

async function readIfLent(
  context: OperationContext,
  name: Parameters<typeof lentFile>[1],
): Promise<string | undefined> {
  const path = await lentFile(context, name)
  return path === undefined ? undefined : readFile(path, 'utf8')
}

function parseAws(text: string): z.infer<typeof awsFile> {
  try {
    return awsFile.parse(JSON.parse(text))
  } catch (cause) {
    const remedy = 'It holds accessKeyId and secretAccessKey, and sessionToken where there is one.'
    throw new PluginError('bad_environment', 'The lent aws.json is not usable.', remedy, cause)
  }
}

/** Pure: the region that an ECR registry's name holds. */
export function ecrRegion(registry: string): string | undefined {
  return /^\d{12}\.dkr\.ecr(?:-fips)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?$/.exec(registry)?.[1]
}

function isGoogle(registry: string): boolean {
  return /^(?:[a-z0-9-]+-docker\.pkg\.dev|(?:[a-z]+\.)?gcr\.io)$/.test(registry)
}

interface Lent {
  file: CredentialFile | undefined
  aws: z.infer<typeof awsFile> | undefined
  google: string | undefined
}
