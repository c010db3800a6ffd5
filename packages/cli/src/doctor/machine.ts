import { access, constants, stat } from 'node:fs/promises'
import { delimiter, dirname, join } from 'node:path'
import { configFile } from '../config/paths.ts'
import type { Io } from '../io.ts'
import { fail, ok, warn, type Check } from './check.ts'

const LEAST_NODE = [20, 19] as const
const BUNDLES = ['cli', 'server', 'agent', 'job', 'registry', 'local-host']

/** What can be said without a server. */
export async function machineChecks(io: Io): Promise<Check[]> {
  return [
    checkNode(io.host.nodeVersion),
    await checkConfigFile(io),
    await checkBundles(io),
    await checkBubblewrap(io),
  ]
}

export function checkNode(version: string): Check {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const enough = major > LEAST_NODE[0] || (major === LEAST_NODE[0] && minor >= LEAST_NODE[1])
  if (enough) return ok('node', `version ${version}`)
  return fail('node', `version ${version} is too old`, `install Node ${LEAST_NODE.join('.')} or newer`)
}

async function checkConfigFile(io: Io): Promise<Check> {
  const path = configFile(io)
  const file = await stat(path).catch(() => undefined)
  if (!file) return ok('config', `${path} does not exist yet`)
  if ((file.mode & 0o077) !== 0) {
    return fail('config', `${path} holds tokens and others can read it`, `chmod 600 ${path}`)
  }
  const folder = await stat(dirname(path))
  if ((folder.mode & 0o022) !== 0) {
    return fail('config', `others can write into ${dirname(path)}`, `chmod 700 ${dirname(path)}`)
  }
  return ok('config', `${path} is readable by you alone`)
}

async function checkBundles(io: Io): Promise<Check> {
  const found = await Promise.all(BUNDLES.map((name) => isReadable(join(io.host.dist, `${name}.mjs`))))
  const absent = BUNDLES.filter((_, i) => !found[i])
  if (absent.length === 0) return ok('bundles', `all in ${io.host.dist}`)
  return warn(
    'bundles',
    `absent in ${io.host.dist}: ${absent.join(', ')}`,
    'run `npm run build` in the clone',
  )
}

async function checkBubblewrap(io: Io): Promise<Check> {
  for (const folder of (io.env['PATH'] ?? '').split(delimiter)) {
    if (folder !== '' && (await isExecutable(join(folder, 'bwrap'))))
      return ok('bubblewrap', join(folder, 'bwrap'))
  }
  return warn(
    'bubblewrap',
    'absent: jobs of an agent on this machine run unconfined, with the network of the machine',
    'install it (Debian: apt install bubblewrap)',
  )
}

function isReadable(path: string): Promise<boolean> {
  return canAccess(path, constants.R_OK)
}

function isExecutable(path: string): Promise<boolean> {
  return canAccess(path, constants.X_OK)
}

function canAccess(path: string, mode: number): Promise<boolean> {
  return access(path, mode).then(
    () => true,
    () => false,
  )
}
