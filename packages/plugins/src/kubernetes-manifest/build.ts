import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import type { Json } from '@tenon/core'
import { MEDIA_TYPES } from '@tenon/protocol'
import { z } from 'zod'
import { gatherClosure } from '../build/closure.ts'
import { buildConfig, type BuildSource } from '../build/config.ts'
import { fetchText } from '../build/fetch-text.ts'
import { imagesInManifests, type FoundImage } from '../build/images-in-manifests.ts'
import { neutralise } from '../build/neutralise.ts'
import { built, publishFolder, vendorClient } from '../build/publish.ts'
import { endOf, findTool } from '../build/run-tool.ts'
import { folderInside, openSource } from '../build/source.ts'
import { readConfig } from '../sdk/config.ts'
import { PluginError } from '../sdk/errors.ts'
import type { OperationContext, OperationResult } from '../sdk/plugin.ts'
import { addressOf } from './config.ts'

const component = z.looseObject({
  namespace: z.string().optional(),
  manifest: z.string().optional(),
  kustomize: z
    .looseObject({
      path: z.string(),
      enable_helm: z.boolean().optional(),
      load_restrictor: z.string().optional(),
    })
    .optional(),
})
type Component = z.infer<typeof component>

const config = buildConfig(component)

/** Packs manifests, or the sources of a kustomization, which is rendered where it is deployed. */
export async function build(context: OperationContext): Promise<OperationResult> {
  const given = readConfig(context.operation, config)
  const { repository } = given
  const { folder, record } = await contentOf(context, given.component, given.source)
  const { found, closureFrom } = await imagesIn(context, folder, given.component)
  const client = await vendorClient(context)
  const closure = await gatherClosure(context, { client, repository, found, declared: given.images })
  const published = await publishFolder(context, {
    client,
    repository,
    folder,
    artifactType: MEDIA_TYPES.kubernetesManifest,
    closure,
  })
  return built(published, { source: record, closure: closure as unknown as Json, closureFrom })
}

/** A manifest of the configuration becomes the file manifest.yaml, templates and all; so does one that it has the address of. */
async function contentOf(
  context: OperationContext,
  { manifest, kustomize }: Component,
  source: BuildSource | null,
): Promise<{ folder: string; record: { [key: string]: Json } | null }> {
  if (manifest === undefined || manifest.trim() === '') {
    const opened = await openSource(context, source)
    if (kustomize !== undefined) await folderInside(opened.folder, kustomize.path)
    return opened
  }
  if (kustomize !== undefined) {
    const message = 'The component has a manifest and a kustomization.'
    throw new PluginError('config_invalid', message, 'Keep one of the two.')
  }
  const folder = join(context.workDir, 'manifest')
  await mkdir(folder)
  const address = addressOf(manifest)
  const fetched = address === undefined ? undefined : await fetchText(context, address)
  await writeFile(join(folder, 'manifest.yaml'), fetched?.text ?? manifest)
  return { folder, record: fetched === undefined ? null : { url: address!, digest: fetched.digest } }
}

async function imagesIn(
  context: OperationContext,
  folder: string,
  { kustomize }: Component,
): Promise<{ found: FoundImage[]; closureFrom: 'rendered' | 'static' }> {
  if (kustomize === undefined) return { found: await imagesInFiles(folder), closureFrom: 'rendered' }
  const path = await folderInside(folder, kustomize.path)
  const rendered = await renderKustomization(context, path, kustomize)
  if (typeof rendered !== 'string') return { found: rendered, closureFrom: 'rendered' }
  context.log(`warning: ${rendered}; images are looked for in the files, and some may be missed`)
  return { found: await imagesInFiles(folder), closureFrom: 'static' }
}

async function renderKustomization(
  context: OperationContext,
  path: string,
  { enable_helm, load_restrictor }: NonNullable<Component['kustomize']>,
): Promise<FoundImage[] | string> {
  const kubectl = await findTool(context, 'kubectl')
  if (kubectl === undefined) return 'this job has no kubectl to render the kustomization with'
  const args = ['kustomize', path]
  if (enable_helm) args.push('--enable-helm')
  if (load_restrictor === 'none') args.push('--load-restrictor', 'LoadRestrictionsNone')
  const env = { HOME: context.workDir, KUBECONFIG: '/dev/null' }
  const end = await endOf(context, { program: kubectl, args, cwd: path, env })
  if (end.code !== 0) return `kubectl cannot render the kustomization (${end.complaint})`
  context.log('rendered the kustomization')
  return imagesInManifests(end.stdout, 'kustomization')
}

async function imagesInFiles(folder: string): Promise<FoundImage[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile() && /\.(?:ya?ml|json)$/.test(entry.name))
  const found: FoundImage[] = []
  for (const file of files) {
    const path = join(file.parentPath, file.name)
    found.push(...imagesInManifests(neutralise(await readFile(path, 'utf8')), relative(folder, path)))
  }
  return found
}
