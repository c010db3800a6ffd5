// What a build was made from, so that a start with nothing changed needs none.
import { createHash } from 'node:crypto'
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'

/** Names, sizes and times of everything that a build reads: another answer means that it must be done again. */
export function madeFrom(root) {
  const hash = createHash('sha256').update(process.version)
  for (const file of ['package-lock.json', 'node_modules/.package-lock.json', 'scripts/build.mjs'])
    add(hash, root, file)
  for (const name of readdirSync(join(root, 'packages')).toSorted())
    for (const file of filesOf(root, join('packages', name))) add(hash, root, file)
  return hash.digest('hex')
}

function filesOf(root, folder) {
  return readdirSync(join(root, folder), { withFileTypes: true })
    .filter(({ name }) => name !== 'node_modules')
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((entry) => {
      const path = join(folder, entry.name)
      return entry.isDirectory() ? filesOf(root, path) : [path]
    })
}

function add(hash, root, file) {
  const { size, mtimeMs } = statSync(join(root, file), { throwIfNoEntry: false }) ?? {}
  hash.update(`${file} ${size} ${mtimeMs}\n`)
}
