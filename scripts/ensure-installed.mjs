// Installs the packages of package-lock.json when they are missing or not the ones it names. Plain Node, no packages.
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))

/** Prints one line; ends the process with a clear message when the packages cannot be had. */
export function ensureInstalled() {
  const wanted = wantedPackages(root)
  const missing = missingPackages(root)
  if (missing.length === 0) {
    console.log(`packages: ${wanted.length} in place`)
    return
  }
  const started = Date.now()
  // NODE_ENV=production or an `omit` of the user's own would leave out what builds need.
  const args = ['ci', '--include=dev', '--include=peer', '--no-audit', '--no-fund', '--loglevel=error']
  const result = spawnSync('npm', args, { cwd: root, encoding: 'utf8', shell: process.platform === 'win32' })
  if (result.status !== 0) {
    console.error(`packages: npm ci failed. Check the network and the npm registry, then try again.`)
    console.error(result.error?.message ?? `${result.stdout}${result.stderr}`)
    process.exit(1)
  }
  const seconds = ((Date.now() - started) / 1000).toFixed(0)
  console.log(`packages: ${missing.length} of ${wanted.length} were missing, installed in ${seconds} s`)
  const left = missingPackages(root)
  if (left.length > 0) {
    console.error(`packages: package-lock.json names what npm does not install: ${left.join(', ')}`)
    console.error('next: run `npm install` and keep the package-lock.json it writes.')
  }
}

/** The paths of packages that a lock names and that are not there, or there in another version. */
export function missingPackages(folder) {
  return wantedPackages(folder)
    .filter(({ path, version }) => !isThere(join(folder, path, 'package.json'), version))
    .map(({ path }) => path)
}

/** Optional ones are left out: they belong to other platforms. */
function wantedPackages(folder) {
  const lock = JSON.parse(readFileSync(join(folder, 'package-lock.json'), 'utf8'))
  return Object.entries(lock.packages)
    .filter(([path, entry]) => path.includes('node_modules/') && !entry.optional && !entry.devOptional)
    .map(([path, entry]) => ({ path, version: entry.link ? undefined : entry.version }))
}

/** An installation that was cut off may leave a file without its content. */
function isThere(file, version) {
  if (!existsSync(file)) return false
  try {
    const found = JSON.parse(readFileSync(file, 'utf8')).version
    return version === undefined || found === version
  } catch {
    return false
  }
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) ensureInstalled()
