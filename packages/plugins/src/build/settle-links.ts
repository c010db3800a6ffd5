import { cp, readdir, readlink, realpath, rm, stat } from 'node:fs/promises'
import { isAbsolute, join, relative, sep } from 'node:path'
import { PluginError } from '../sdk/errors.ts'

const MAX_LINKS = 1000

/**
 * Puts what a link points to in its place; artifacts hold no links. One that leads out of `root` is refused. `kept`:
 * those that stay inside the folder stay as they are, for builders that know links.
 */
export async function settleLinks(
  folder: string,
  root: string,
  links: 'settled' | 'kept' = 'settled',
): Promise<void> {
  const top = await realpath(root)
  const own = await realpath(folder)
  let count = 0
  const visit = async (dir: string): Promise<void> => {
    for (const entry of await readdir(dir, { withFileTypes: true })) {
      const path = join(dir, entry.name)
      if (links === 'kept' && entry.isSymbolicLink() && (await staysInside(path, own))) continue
      if (entry.isSymbolicLink()) {
        count += 1
        if (count > MAX_LINKS) throw refused(relative(root, path), `is one of more than ${MAX_LINKS} links`)
        await settle(path, relative(root, path), top)
      }
      if (entry.isDirectory() || (entry.isSymbolicLink() && (await stat(path)).isDirectory()))
        await visit(path)
    }
  }
  await visit(folder)
}

async function staysInside(path: string, folder: string): Promise<boolean> {
  if (isAbsolute(await readlink(path))) return false
  const target = await realpath(path).catch(() => undefined)
  return target !== undefined && `${target}${sep}`.startsWith(folder + sep)
}

async function settle(path: string, name: string, top: string): Promise<void> {
  const target = await realpath(path).catch(() => undefined)
  if (target === undefined) throw refused(name, 'is a link to nothing')
  if (!target.startsWith(top + sep)) throw refused(name, 'is a link out of the source')
  if (`${path}${sep}`.startsWith(target + sep)) throw refused(name, 'is a link to a folder around it')
  await rm(path)
  await cp(target, path, { recursive: true, verbatimSymlinks: false, dereference: false })
}

function refused(name: string, why: string): PluginError {
  const message = `${JSON.stringify(name)} ${why}.`
  return new PluginError('source_refused', message, 'Replace the link by what it should hold.')
}
