import { mkdir, readdir, readFile, realpath, writeFile } from 'node:fs/promises'
import { join, relative, sep } from 'node:path'
import type { Json } from '@tenon/core'
import { MEDIA_TYPES } from '@tenon/protocol'
import { stringify } from 'yaml'
import { closeImages, type Closed } from '../deploy/closure.ts'
import { knownImages } from '../deploy/images.ts'
import type { Work } from '../deploy/operation.ts'
import type { Cluster } from '../kubernetes/cluster.ts'
import { parseObjects, type KubeObject } from '../kubernetes/objects.ts'
import { withProtocols } from '../kubernetes/ports.ts'
import { PluginError } from '../sdk/errors.ts'
import { addressOf, type ManifestConfig } from './config.ts'

/** What the component wants to be there, every image pointed at the install registry. */
export async function wantedObjects(work: Work<ManifestConfig>, cluster: Cluster): Promise<Closed> {
  const objects = await readObjects(work, cluster)
  if (objects.length === 0) {
    const message = 'The component has no objects.'
    throw new PluginError('artifact_invalid', message, 'Write a manifest, or name the folder that holds it.')
  }
  return closeImages(withProtocols(objects), await knownImages(work, work.config))
}

async function readObjects(work: Work<ManifestConfig>, cluster: Cluster): Promise<KubeObject[]> {
  const { manifest, kustomize } = work.component
  if (manifest.trim() !== '' && addressOf(manifest) === undefined)
    return parseObjects(manifest, 'the manifest')
  const folder = await work.artifact('artifact', { artifactType: MEDIA_TYPES.kubernetesManifest })
  if (kustomize === undefined) return filesOf(folder)
  const base = await inside(folder, kustomize.path)
  const overlay = await writeOverlay(folder, base, kustomize.patches)
  const args = ['kustomize', overlay]
  if (kustomize.enable_helm) args.push('--enable-helm')
  if (kustomize.load_restrictor === 'none') args.push('--load-restrictor', 'LoadRestrictionsNone')
  return parseObjects(await cluster.must(args), 'the kustomization')
}

async function filesOf(folder: string): Promise<KubeObject[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const paths = entries
    .filter((entry) => entry.isFile() && /\.(?:ya?ml|json)$/.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name))
  const objects: KubeObject[] = []
  for (const path of paths.toSorted()) {
    objects.push(...parseObjects(await readFile(path, 'utf8'), relative(folder, path)))
  }
  return objects
}

async function inside(folder: string, path: string): Promise<string> {
  const top = await realpath(folder)
  const found = await realpath(join(top, path)).catch(() => undefined)
  if (found !== undefined && (found === top || found.startsWith(top + sep))) return found
  const message = `The artifact has no folder ${JSON.stringify(path)}.`
  throw new PluginError('config_invalid', message, 'Correct `kustomize.path` of the component.')
}

/** The component's own patches lie over what it was built from. */
async function writeOverlay(folder: string, base: string, patches: readonly Json[]): Promise<string> {
  if (patches.length === 0) return base
  const overlay = join(await realpath(folder), '.tenon-overlay')
  await mkdir(overlay)
  const written = patches.map((patch) => (typeof patch === 'string' ? { patch } : patch))
  const content = { resources: [relative(overlay, base)], patches: written }
  await writeFile(join(overlay, 'kustomization.yaml'), stringify(content), { mode: 0o600 })
  return overlay
}
