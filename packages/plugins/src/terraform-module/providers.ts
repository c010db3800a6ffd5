import { cp, mkdir, readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { PluginError } from '../sdk/errors.ts'
import type { OperationContext } from '../sdk/plugin.ts'

export interface MirroredProvider {
  source: string
  version: string
}

/**
 * The providers that `init` installed, as a filesystem mirror. Unpacked, since the lock file's hash of that form is
 * the one that every way of installing checks.
 */
export async function collectProviders(
  context: OperationContext,
  folder: string,
  mirror: string,
): Promise<{ providers: MirroredProvider[]; platform: string | undefined }> {
  const installed = join(folder, '.terraform/providers')
  await mkdir(mirror)
  const providers: MirroredProvider[] = []
  const platforms = new Set<string>()
  // host / namespace / type / version / platform
  for (const path of await pathsBelow(installed, 5)) {
    const [host = '', namespace = '', type = '', version = '', platform = ''] = path.split('/')
    // What a mirror on this machine lends is there as a link; the artifact holds the files themselves.
    await cp(join(installed, path), join(mirror, path), { recursive: true, dereference: true })
    await checkFiles(join(mirror, path), path)
    providers.push({ source: `${host}/${namespace}/${type}`, version })
    platforms.add(platform)
    context.log(`provider ${host}/${namespace}/${type} ${version} for ${platform}`)
  }
  return { providers, platform: [...platforms][0] }
}

async function pathsBelow(folder: string, levels: number): Promise<string[]> {
  const names = await readdir(folder).catch(() => [])
  // OpenTofu leaves lock files beside the providers' folders.
  const isFolder = await Promise.all(
    names.map((name) => stat(join(folder, name)).then((found) => found.isDirectory())),
  )
  const sorted = names.filter((_name, index) => isFolder[index]).toSorted()
  if (levels === 1) return sorted
  const below = await Promise.all(
    sorted.map(async (name) =>
      (await pathsBelow(join(folder, name), levels - 1)).map((path) => `${name}/${path}`),
    ),
  )
  return below.flat()
}

async function checkFiles(folder: string, name: string): Promise<void> {
  const names = await readdir(folder)
  if (names.some((each) => each.startsWith('terraform-provider-'))) return
  const message = `The provider at ${name} holds no program.`
  throw new PluginError('dependency_missing', message, 'Check the mirror that the build agent was lent.')
}
