import { readFile, realpath } from 'node:fs/promises'
import { join, sep } from 'node:path'
import { pathToFileURL } from 'node:url'
import { OPERATIONS } from '@tenon/core'
import { MEDIA_TYPES, pluginDescription, type PluginDescription } from '@tenon/protocol'
import { z } from 'zod'
import { PluginError } from '../sdk/errors.ts'
import type { OperationContext, Plugin } from '../sdk/plugin.ts'
import { pullFolder } from '../sdk/pull-folder.ts'
import { shellPlugin } from '../sdk/shell-plugin.ts'
import syncPlugin from '../sync/plugin.ts'
import type { OpenRegistry } from './run-job.ts'

/** Only what nothing can be synced before; every other plugin is an artifact. */
const BUILT_IN: Record<string, Plugin | undefined> = { sync: syncPlugin }

/** The plugin that the manifest names, by digest from the registry of this side, checked before anything of it runs. */
export async function loadPlugin(context: OperationContext, registry: OpenRegistry): Promise<Plugin> {
  const { plugin } = context.operation
  if (plugin.digest === null) return builtIn(plugin.name)
  const folder = join(context.workDir, 'plugin')
  const { repository, digest } = plugin
  const { signal } = context
  await pullFolder(
    { client: await registry(), repository, digest, artifactType: MEDIA_TYPES.plugin, signal },
    folder,
  )
  const description = await readDescription(folder)
  // A component of the type `plugin` brings its own, under whatever name: the digest says which.
  if (plugin.name !== 'plugin' && description.name !== plugin.name) {
    throw invalid(`The plugin at ${repository} is ${description.name}, not ${plugin.name}`)
  }
  const entry = await entryOf(folder, description)
  return description.kind === 'shell' ? shellPlugin(description, entry) : importPlugin(description, entry)
}

function builtIn(name: string): Plugin {
  const plugin = Object.hasOwn(BUILT_IN, name) ? BUILT_IN[name] : undefined
  if (plugin) return plugin
  const message = `No plugin ${name} comes with the agent.`
  throw new PluginError('plugin_unknown', message, 'Name the plugin by the digest of its artifact.')
}

/** A plugin of later may do more than there are jobs for here. */
const knownDescription = pluginDescription.extend({
  operations: z
    .array(z.string().max(64))
    .transform((names) => OPERATIONS.filter((known) => names.includes(known))),
})

async function readDescription(folder: string): Promise<PluginDescription> {
  try {
    return knownDescription.parse(JSON.parse(await readFile(join(folder, 'plugin.json'), 'utf8')))
  } catch (cause) {
    throw invalid('Its plugin.json is absent or does not fit the contract', cause)
  }
}

/** Only a path inside the plugin's own folder. */
async function entryOf(folder: string, description: PluginDescription): Promise<string> {
  const root = await realpath(folder)
  const path = await realpath(join(root, description.entry)).catch((cause: unknown) => {
    throw invalid(`Its entry ${description.entry} is absent`, cause)
  })
  if (path === root || path.startsWith(root + sep)) return path
  throw invalid(`Its entry ${description.entry} leads out of its folder`)
}

async function importPlugin(description: PluginDescription, entry: string): Promise<Plugin> {
  const module = (await import(pathToFileURL(entry).href).catch((cause: unknown) => {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw invalid(`Its entry cannot be loaded: ${why}`, cause)
  })) as { default?: Partial<Plugin> }
  const operations = module.default?.operations
  if (typeof operations !== 'object' || operations === null) {
    throw invalid('Its entry has no default export with operations')
  }
  const isWhole = description.operations.every((name) => typeof operations[name] === 'function')
  if (!isWhole) throw invalid('It does not have every operation that its plugin.json declares')
  const declared = description.operations.map((name) => [name, operations[name]] as const)
  return { description, operations: Object.fromEntries(declared) }
}

function invalid(what: string, cause?: unknown): PluginError {
  const remedy = 'Publish the plugin again; its layer holds plugin.json and the entry it names.'
  return new PluginError('plugin_invalid', `${what}.`, remedy, cause)
}
