import { cp, readdir, realpath, rm, stat } from 'node:fs/promises'
import { join, relative, sep } from 'node:path'
import { PluginError } from '../sdk/errors.ts'

const MAX_LINKS = 1000

/** Puts what a link points to in its place; artifacts hold no links. One that leads out of `root` is refused. */
export async function settleLinks(folder: string, root: string): Promise<void> {
  const top = await realpath(root)
  let links = 0
  const visit = async (dir: string): Promise<void> => {
    for (const entry of await readdir(dir, { withFileTypes: true })) {
      const path = join(dir, entry.name)
      if (entry.isSymbolicLink()) {
        links += 1
        if (links > MAX_LINKS) throw refused(relative(root, path), `is one of more than ${MAX_LINKS} links`)
        await settle(path, relative(root, path), top)
      }
      if (entry.isDirectory() || (entry.isSymbolicLink() && (await stat(path)).isDirectory()))
        await visit(path)
    }
  }
  await visit(folder)
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
