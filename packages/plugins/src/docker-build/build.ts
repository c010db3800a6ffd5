import { sizeWords } from '@tenon/core'
import { lstat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { importLayout } from '@tenon/oci'
import { z } from 'zod'
import { refuseDeclared } from '../build/closure.ts'
import { buildConfig } from '../build/config.ts'
import { built, vendorClient } from '../build/publish.ts'
import { folderInside, openSource } from '../build/source.ts'
import { readConfig } from '../sdk/config.ts'
import { PluginError } from '../sdk/errors.ts'
import type { OperationContext, OperationResult } from '../sdk/plugin.ts'
import { findBuilder, runBuilder } from './builder.ts'
import { normalizeLayout } from './normalize-image.ts'

const component = z.looseObject({
  dockerfile: z.string().default('Dockerfile'),
  target: z.string().default(''),
  build_args: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])).default({}),
})
type Component = z.infer<typeof component>

const config = buildConfig(component)

/** Builds an image from a Dockerfile; nothing in it tells when or where, so the same source gives the same digest. */
export async function build(context: OperationContext): Promise<OperationResult> {
  const given = readConfig(context.operation, config)
  checkTexts(given.component)
  refuseDeclared(given.images)
  const builder = await findBuilder(context)
  const { folder, record } = await openSource(context, given.source, 'kept')
  const file = await dockerfileIn(folder, given.component.dockerfile)
  const { target, build_args } = given.component
  const layout = await runBuilder(context, builder, { folder, file, target, args: build_args })
  await normalizeLayout(layout)
  const { repository } = given
  const copied = await importLayout(layout, {
    to: { client: await vendorClient(context), repository },
    signal: context.signal,
  })
  context.log(`pushed ${repository}@${copied.digest}, ${sizeWords(copied.transferredBytes)} sent`)
  const size = copied.transferredBytes + copied.skippedBytes
  return built(
    { digest: copied.digest, size, repository, mediaType: copied.mediaType },
    { source: record, builder: builder.name },
  )
}

async function dockerfileIn(folder: string, name: string): Promise<string> {
  const parent = await folderInside(folder, dirname(name))
  const path = join(parent, name.split('/').at(-1) ?? '')
  if ((await lstat(path).catch(() => undefined))?.isFile()) return path
  const message = `The source has no file ${JSON.stringify(name)}.`
  throw new PluginError('source_unreachable', message, 'Correct `dockerfile` of the component.')
}

function checkTexts({ dockerfile, target, build_args }: Component): void {
  for (const text of [dockerfile, target, ...Object.values(build_args).map(String)]) {
    if (!text.includes('{{')) continue
    const message = `${JSON.stringify(text)} is a template, and a build knows no install.`
    throw new PluginError('config_invalid', message, 'Write the value out.')
  }
  const wrong = Object.keys(build_args).find((name) => !/^[A-Za-z_][A-Za-z0-9_]*$/.test(name))
  if (wrong === undefined && /^[A-Za-z0-9_.-]*$/.test(target) && !target.startsWith('-')) return
  const message = `${JSON.stringify(wrong ?? target)} is no name of a build argument or target.`
  throw new PluginError('config_invalid', message, 'Use letters, digits and underscores.')
}
