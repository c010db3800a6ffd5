import { lstat, readFile, realpath } from 'node:fs/promises'
import { join, sep } from 'node:path'
import { MEDIA_TYPES, pluginDescription, type PluginDescription } from '@tenon/protocol'
import { z } from 'zod'
import { gatherClosure } from '../build/closure.ts'
import { buildConfig } from '../build/config.ts'
import { built, publishFolder, vendorClient } from '../build/publish.ts'
import { openSource } from '../build/source.ts'
import { readConfig } from '../sdk/config.ts'
import { PluginError } from '../sdk/errors.ts'
import type { OperationContext, OperationResult } from '../sdk/plugin.ts'

const config = buildConfig(z.looseObject({}))

/** A vendor's own plugin: a folder with plugin.json and the entry it names, checked as a job would check it. */
export async function build(context: OperationContext): Promise<OperationResult> {
  const { repository, source, images } = readConfig(context.operation, config)
  const { folder, record } = await openSource(context, source)
  const description = await describe(folder)
  await checkEntry(folder, description)
  context.log(
    `the plugin ${description.name} ${description.version} does ${description.operations.join(', ')}`,
  )
  const client = await vendorClient(context)
  const closure = await gatherClosure(context, { client, repository, found: [], declared: images })
  const published = await publishFolder(context, {
    client,
    repository,
    closure,
    folder,
    artifactType: MEDIA_TYPES.plugin,
    layerType: MEDIA_TYPES.pluginLayer,
  })
  const { name, version, operations } = description
  return built(published, { source: record, plugin: { name, version, operations } })
}

async function describe(folder: string): Promise<PluginDescription> {
  const text = await readFile(join(folder, 'plugin.json'), 'utf8').catch((cause: unknown) => {
    throw invalid('The source has no plugin.json', cause)
  })
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (cause) {
    throw invalid('plugin.json is not JSON', cause)
  }
  const parsed = pluginDescription.safeParse(value)
  if (parsed.success) return parsed.data
  const issues = parsed.error.issues.map(
    (issue) => `${issue.path.join('.') || 'all of it'}: ${issue.message}`,
  )
  throw invalid(`plugin.json does not fit the contract (${issues.slice(0, 5).join('; ')})`)
}

/** `node` names a module; `shell` a folder with one executable per operation. */
async function checkEntry(folder: string, { entry, kind, operations }: PluginDescription): Promise<void> {
  const root = await realpath(folder)
  const path = await realpath(join(root, entry)).catch((cause: unknown) => {
    throw invalid(`plugin.json names the entry ${JSON.stringify(entry)}, which is not there`, cause)
  })
  if (path !== root && !path.startsWith(root + sep))
    throw invalid(`The entry ${JSON.stringify(entry)} leads out`)
  const isFolder = (await lstat(path)).isDirectory()
  if (isFolder !== (kind === 'shell')) {
    throw invalid(`The entry of a ${kind} plugin is a ${kind === 'shell' ? 'folder' : 'module'}`)
  }
  if (kind !== 'shell') return
  for (const operation of operations) {
    const script = await lstat(join(path, operation)).catch(() => undefined)
    if (!script?.isFile()) throw invalid(`The folder ${JSON.stringify(entry)} has no executable ${operation}`)
  }
}

function invalid(what: string, cause?: unknown): PluginError {
  return new PluginError('plugin_invalid', `${what}.`, 'Correct the plugin and build it again.', cause)
}
