import { execFile, spawn } from 'node:child_process'
import { mkdir, mkdtemp, open, readFile, rm } from 'node:fs/promises'
import { get } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)
const READY_MS = 60_000
const STOP_MS = 30_000

export interface TestDockerd {
  /** Holds `docker.sock`, as a vendor lends it. */
  lentFolder: string
  /** As `DOCKER_HOST` names it. */
  address: string
  /** Ids of all that the engine holds. */
  images(): Promise<string[]>
  close(): Promise<void>
}

/**
 * An engine of its own: data, socket and, unless it is to reach this machine's ports, network apart from what else runs here.
 * It has no bridge and changes no rule of the network that it is in.
 */
export async function startDockerd(network: 'own' | 'shared' = 'own'): Promise<TestDockerd> {
  const dir = await mkdtemp(join(tmpdir(), 'tenon-dockerd-'))
  const lentFolder = join(dir, 'lent')
  await mkdir(lentFolder)
  const socketPath = join(lentFolder, 'docker.sock')
  const log = await open(join(dir, 'log'), 'a')
  const places = `--data-root ${dir}/data --exec-root ${dir}/exec --pidfile ${dir}/pid`
  const without = '--iptables=false --ip6tables=false --ip-forward=false --bridge=none'
  const command = `exec dockerd ${places} ${without} --host unix://${socketPath}`
  const env = { ...process.env, PATH: `${process.env['PATH']}:/usr/sbin:/sbin` }
  const apart = network === 'own' ? ['--net'] : []
  const child = spawn('/usr/bin/unshare', [...apart, 'sh', '-c', command], {
    env,
    stdio: ['ignore', log.fd, log.fd],
  })
  await log.close()
  const gone = new Promise<void>((resolve) => child.once('close', () => resolve()))
  const close = async () => {
    child.kill('SIGTERM')
    const impatient = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
    await gone
    clearTimeout(impatient)
    const mounts = (await readFile('/proc/self/mounts', 'utf8'))
      .split('\n')
      .map((line) => line.split(' ')[1] ?? '')
    for (const mount of mounts.filter((place) => place.startsWith(`${dir}/`)).toReversed())
      await run('umount', ['--lazy', mount])
    await rm(dir, { recursive: true, force: true, maxRetries: 5 })
  }
  const deadline = Date.now() + READY_MS
  while ((await ask(socketPath, '/_ping')) === undefined) {
    if (Date.now() > deadline || child.exitCode !== null) {
      const said = (await readFile(join(dir, 'log'), 'utf8')).slice(-2000)
      await close()
      throw new Error(`dockerd did not start: ${said}`)
    }
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  return {
    lentFolder,
    address: `unix://${socketPath}`,
    images: async () => {
      const all = JSON.parse((await ask(socketPath, '/images/json?all=1')) ?? '[]') as { Id: string }[]
      return all.map(({ Id }) => Id)
    },
    close,
  }
}

function ask(socketPath: string, path: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    get({ socketPath, path }, (answer) => {
      let text = ''
      answer.on('data', (chunk) => (text += String(chunk)))
      answer.on('end', () => resolve(answer.statusCode === 200 ? text : undefined))
    }).on('error', () => resolve(undefined))
  })
}
