import { parseImageName, parsePlatform } from '@tenon/oci'
import { z } from 'zod'
import { refuseDeclared } from '../build/closure.ts'
import { buildConfig } from '../build/config.ts'
import { copyImage } from '../build/copy-image.ts'
import { openImageSources } from '../build/image-sources.ts'
import { built, vendorClient } from '../build/publish.ts'
import { readConfig } from '../sdk/config.ts'
import { PluginError } from '../sdk/errors.ts'
import type { OperationContext, OperationResult } from '../sdk/plugin.ts'

const image = { image_url: z.string().min(1), tag: z.string().min(1) }

const config = buildConfig(
  z.looseObject({
    public: z.looseObject(image).optional(),
    aws_ecr: z.looseObject({ ...image, region: z.string(), iam_role_arn: z.string().optional() }).optional(),
    gcp_gar: z.looseObject(image).optional(),
    /** One platform of an index instead of all. */
    platform: z.string().optional(),
  }),
)

/** Mirrors an image that exists elsewhere: what its tag stands for now, pinned to its digest. */
export async function build(context: OperationContext): Promise<OperationResult> {
  const { component, repository, images } = readConfig(context.operation, config)
  refuseDeclared(images)
  const named = component.public ?? component.aws_ecr ?? component.gcp_gar
  if (named === undefined) throw wrong('names no image', 'Give it a section public, aws_ecr or gcp_gar.')
  const name = imageName(named)
  const platform = component.platform === undefined ? undefined : parsePlatform(component.platform)
  const { registry } = parseImageName(name)
  const role = component.aws_ecr?.iam_role_arn
  const sources = await openImageSources(context, role ? { roles: { [registry]: role } } : {})
  const resolved = await sources.resolve(name, 'the component')
  context.log(`${name} is ${resolved.digest}`)
  const to = { client: await vendorClient(context), repository }
  const copied = await copyImage(context, resolved, to, platform === undefined ? {} : { platform })
  const size = copied.transferredBytes + copied.skippedBytes
  const published = { digest: copied.digest, size, repository, mediaType: copied.mediaType }
  return built(published, {
    image: { name, digest: resolved.digest },
    platform: component.platform,
    manifests: copied.manifests,
  })
}

/** Pure: a tag may also be a digest, as `tag = "sha256:…"`. */
export function imageName({ image_url, tag }: { image_url: string; tag: string }): string {
  const url = image_url.replace(/^(?:https?|docker|oci):\/\//, '')
  for (const text of [url, tag]) {
    if (text.includes('{{'))
      throw wrong(
        `has a template in ${JSON.stringify(text)}`,
        'A build knows no install: write the image and tag out.',
      )
  }
  return /^sha(?:256|512):/.test(tag) ? `${url}@${tag}` : `${url}:${tag}`
}

function wrong(what: string, remedy: string): PluginError {
  return new PluginError('config_invalid', `The component ${what}.`, remedy)
}
