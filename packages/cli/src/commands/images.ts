import { sizeWords } from '@tenon/core'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { Command } from '@commander-js/extra-typings'
import {
  anonymous,
  basicCredentials,
  createRegistryClient,
  formatImageReference,
  importLayoutTar,
  isOciError,
  parseImageReference,
  type Credentials,
  type ImageReference,
} from '@tenon/oci'
import { PRODUCT_VERSION } from '@tenon/protocol'
import { z } from 'zod'
import type { Cli } from '../cli.ts'
import { CliError, usageError } from '../errors.ts'
import { EXIT } from '../exit-codes.ts'
import { examples } from '../help-text.ts'
import type { Io } from '../io.ts'

/** As long as a push of the largest image over a slow line takes. */
const PUSH_SECONDS = 3600

interface PushOptions {
  from?: string | undefined
  keyFile?: string | undefined
  plainHttp?: true | undefined
}

export function addImages(program: Command, cli: Cli): void {
  const images = program
    .command('images')
    .description('the images that jobs run in')
    .addHelpText('after', examples('tenon images push registry.example.com/tenon/job'))
  images
    .command('push')
    .description('push the job image of this version into a registry, and print it by digest')
    .argument('<reference>', 'host/repository, with :tag where it should not be this version')
    .option('--from <file>', 'an OCI layout as one tar, instead of the one beside this program')
    .option('--key-file <file>', 'the key of a Tenon install registry')
    .option('--plain-http', 'speak HTTP without TLS; a loopback address is spoken to so anyway')
    .addHelpText(
      'after',
      examples(
        'tenon images push registry.example.com/tenon/job',
        'tenon images push 127.0.0.1:5000/tenon/job:test --from ./job.tar --key-file ./registry.key',
      ),
    )
    .addHelpText('after', '\nOther registries: TENON_REGISTRY_USERNAME and TENON_REGISTRY_PASSWORD.')
    .action((reference, options) => pushImage(cli, reference, options))
}

async function pushImage(cli: Cli, wanted: string, options: PushOptions): Promise<void> {
  const target = readReference(wanted)
  const file = archiveOf(cli.io, options.from)
  const url = `${isPlain(target, options) ? 'http' : 'https'}://${target.registry}`
  const credentials = await credentialsFor(cli.io, url, target.repository, options.keyFile)
  const client = createRegistryClient({ url, credentials })
  const { tag } = target
  const result = await importLayoutTar(file, {
    to: { client, repository: target.repository },
    ...(tag === undefined ? {} : { tag }),
  }).catch((cause: unknown) => {
    if (!isOciError(cause)) throw cause
    throw new CliError(EXIT.failed, `the image was not pushed: ${cause.message}`, {
      next: 'check the address, the credentials and that the file is an OCI layout; what arrived is not sent again',
      cause,
    })
  })
  const { registry, repository } = target
  const reference = formatImageReference({ registry, repository, digest: result.digest })
  const { digest, transferredBytes, skippedBytes } = result
  if (cli.globals.json) return cli.out.json({ reference, digest, tag, transferredBytes, skippedBytes })
  cli.out.line(reference)
  cli.out.note(
    `${sizeWords(transferredBytes)} sent, ${sizeWords(skippedBytes)} were there; agents take it as TENON_JOB_IMAGE`,
  )
}

/** The image is versioned with the product, so that is its tag unless another is wanted. */
function readReference(wanted: string): ImageReference & { tag?: string } {
  let reference: ImageReference
  try {
    reference = parseImageReference(wanted)
  } catch (error) {
    throw usageError((error as Error).message, 'write it as host/repository or host/repository:tag')
  }
  if (reference.digest !== undefined) throw usageError('the digest is that of the image; name a tag at most')
  return { ...reference, tag: reference.tag ?? PRODUCT_VERSION }
}

function archiveOf(io: Io, from: string | undefined): string {
  const file = from === undefined ? join(io.host.dist, 'images', 'job.tar') : resolve(io.cwd, from)
  if (existsSync(file)) return file
  throw new CliError(EXIT.notFound, `there is no image at ${file}`, {
    next: 'build it with `npm run build && node scripts/images.mjs` in the clone, or name one with --from',
  })
}

function isPlain({ registry }: ImageReference, options: PushOptions): boolean {
  return options.plainHttp === true || /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?$/.test(registry)
}

async function credentialsFor(
  io: Io,
  url: string,
  repository: string,
  keyFile: string | undefined,
): Promise<Credentials> {
  if (keyFile !== undefined) {
    const bearer = await bearerOf(io, url, repository, resolve(io.cwd, keyFile))
    return async () => ({ bearer })
  }
  const { TENON_REGISTRY_USERNAME: username, TENON_REGISTRY_PASSWORD: password } = io.env
  if (username === undefined && password === undefined) return anonymous
  if (username !== undefined && password !== undefined) return basicCredentials(username, password)
  throw usageError('TENON_REGISTRY_USERNAME and TENON_REGISTRY_PASSWORD belong together')
}

/** An install registry trades its key for a bearer to this one repository. */
async function bearerOf(io: Io, url: string, repository: string, keyFile: string): Promise<string> {
  const key = await readFile(keyFile, 'utf8').catch((cause: unknown) => {
    throw usageError(`the key file ${keyFile} cannot be read: ${(cause as Error).message}`)
  })
  const body = {
    subject: 'images-push',
    ttlSeconds: PUSH_SECONDS,
    repositories: [{ name: repository, actions: ['pull', 'push'] }],
  }
  const response = await io.fetch(`${url}/token`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key.trim()}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  const parsed = z
    .object({ bearer: z.string().min(1) })
    .safeParse(await response.json().catch(() => undefined))
  if (response.ok && parsed.success) return parsed.data.bearer
  throw new CliError(EXIT.denied, `the registry at ${url} gives no access: it answered ${response.status}`, {
    next: 'use the key file that this registry was started with',
  })
}
