import { realpath, stat } from 'node:fs/promises'
import { dirname, join, resolve, sep } from 'node:path'

/**
 * The folder that `source` names: relative to the component's file, else to the app's folder. It must lie in the
 * app's repository (or its folder), so that a config taken from elsewhere cannot have a home folder uploaded.
 */
export async function findSource(
  appFolder: string,
  componentFile: string,
  source: string,
): Promise<{ ok: true; folder: string } | { ok: false; message: string; expected: string }> {
  const candidates = [resolve(appFolder, dirname(componentFile), source), resolve(appFolder, source)]
  for (const candidate of candidates) {
    if (!(await isFolder(candidate))) continue
    const folder = await realpath(candidate)
    const within = await outermost(await realpath(appFolder))
    if (folder === within || folder.startsWith(within + sep)) return { ok: true, folder }
    return {
      ok: false,
      message: `source lies outside of ${within}`,
      expected: 'a folder of the same repository',
    }
  }
  return {
    ok: false,
    message: `source names no folder: ${source}`,
    expected: `a folder such as ${candidates[1]}`,
  }
}

async function outermost(appFolder: string): Promise<string> {
  for (let folder = appFolder; dirname(folder) !== folder; folder = dirname(folder)) {
    if (await exists(join(folder, '.git'))) return folder
  }
  return appFolder
}

function isFolder(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  )
}

function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  )
}
