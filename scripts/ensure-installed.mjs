// Installs the packages of package-lock.json when they are missing or not the ones it names. Plain Node, no packages.
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))

/** Prints one line; ends the process with a clear message when the packages cannot be had. */
export function ensureInstalled() {
  const wanted = wantedPackages()
  const missing = wanted.filter((entry) => !isThere(entry))
  if (missing.length === 0) {
    console.log(`packages: ${wanted.length} in place`)
    return
  }
  const started = Date.now()
  const result = spawnSync('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd: root,
    encoding: 'utf8',
    shell: process.platform === 'win32',
  })
  if (result.status !== 0) {
    console.error(`packages: npm ci failed. Check the network and the npm registry, then try again.`)
    console.error(result.error?.message ?? `${result.stdout}${result.stderr}`)
    process.exit(1)
  }
  const seconds = ((Date.now() - started) / 1000).toFixed(0)
  console.log(`packages: ${missing.length} of ${wanted.length} were missing, installed in ${seconds} s`)
}

/** Optional ones are left out: they belong to other platforms. */
function wantedPackages() {
  const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'))
  return Object.entries(lock.packages)
    .filter(([path, entry]) => path.includes('node_modules/') && !entry.optional && !entry.devOptional)
    .map(([path, entry]) => ({ path, version: entry.link ? undefined : entry.version }))
}

function isThere({ path, version }) {
  const file = join(root, path, 'package.json')
  if (!existsSync(file)) return false
  return version === undefined || JSON.parse(readFileSync(file, 'utf8')).version === version
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) ensureInstalled()
