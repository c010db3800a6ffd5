import { execFile, spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { createReadStream } from 'node:fs'
import { mkdir, mkdtemp, open, readFile, readdir, readlink, rm, stat, writeFile } from 'node:fs/promises'
import http from 'node:http'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { build } from 'esbuild'

const run = promisify(execFile)
const ROOT = path.resolve(import.meta.dirname, '../../../../..')

/** This machine allows fewer open files and processes than Podman's defaults, and crun not at all. */
const CONTAINERS_CONF = `[containers]
default_ulimits = ["nofile=20000:20000", "nproc=32768:32768"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
`
/** Docker speaks plain HTTP to every registry on the loopback by itself. */
const REGISTRIES_CONF = `[[registry]]
location = "127.0.0.1:5000"
insecure = true
`
const READY_MILLISECONDS = 30_000
const STOP_MILLISECONDS = 10_000

export interface BuiltImage {
  file: string
  reference: string
  imageId: string
  digest: string
}

export type EngineName = 'docker' | 'podman'

export interface TestEngine {
  name: EngineName
  socketPath: string
  /** Everything of the test lies under it. */
  dir: string
  /** Makes the image of an archive known; answers its id. */
  load(archive: BuiltImage): Promise<string>
  /** What starts a program in the network of the engine, where 127.0.0.1 is the engine's. */
  beside(): string[]
  spawnBeside(program: string, args: string[]): ChildProcess
  /** Kills the engine's own process, as an update of it does. */
  restart(): Promise<void>
  close(): Promise<void>
}

/** Why this machine cannot run the engine, or undefined when it can. */
export async function missingFor(name: EngineName): Promise<string | undefined> {
  if (process.getuid?.() !== 0) return 'only root can start an engine of its own'
  const programs = name === 'docker' ? ['dockerd', 'iptables'] : ['podman', 'runc', 'netavark']
  for (const program of [...programs, 'busybox', 'unshare']) {
    const folders = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/lib/podman'
    const found = await run('/bin/sh', ['-c', 'command -v "$0"', program], { env: { PATH: folders } }).catch(
      () => '',
    )
    if (found === '') return `${program} is not installed`
  }
  return undefined
}

/** A whole engine of its own: data, sockets and network apart from what else runs on this machine. */
export async function startEngine(name: EngineName): Promise<TestEngine> {
  const dir = await mkdtemp(path.join(tmpdir(), `tenon-${name}-`))
  const socketPath = path.join(dir, 'engine.sock')
  await writeFile(path.join(dir, 'containers.conf'), CONTAINERS_CONF)
  await writeFile(path.join(dir, 'registries.conf'), REGISTRIES_CONF)
  let daemon = await startDaemon(name, dir, socketPath)
  return {
    name,
    socketPath,
    dir,
    async load({ file, imageId }) {
      await upload(socketPath, file)
      return imageId
    },
    beside: () => besideOf(daemon),
    spawnBeside: (program, args) => {
      const [nsenter = '', ...before] = besideOf(daemon)
      return spawn(nsenter, [...before, program, ...args], { stdio: ['ignore', 'pipe', 'inherit'] })
    },
    async restart() {
      await stopDaemon(daemon)
      daemon = await startDaemon(name, dir, socketPath)
    },
    async close() {
      const network = await networkOf(daemon.pid)
      await stopDaemon(daemon)
      await endNameServer(network)
      await endHelpers(dir)
      await unmountAll(dir)
      await rm(dir, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}

function besideOf(daemon: ChildProcess): string[] {
  return ['/usr/bin/nsenter', '--target', String(daemon.pid), '--net']
}

/** An image of BusyBox alone, which every test of a runtime can do with; the whole one is some 50 MB. */
export async function buildTestImage(
  dir: string,
  args = ['--bare'],
  env: NodeJS.ProcessEnv = process.env,
): Promise<BuiltImage> {
  const script = path.join(ROOT, 'scripts/images.mjs')
  const { stdout } = await run(process.execPath, [script, ...args, '--outdir', dir], { env })
  return JSON.parse(stdout) as BuiltImage
}

/** A program as it is shipped: one file. `source` is a path from the root of the repository. */
export async function bundleProgram(source: string, outfile: string): Promise<string> {
  const require = "import { createRequire as r } from 'node:module'; const require = r(import.meta.url);"
  const entryPoints = [path.resolve(ROOT, source)]
  const form = { bundle: true, platform: 'node', format: 'esm', logLevel: 'error' } as const
  await build({ entryPoints, outfile, ...form, banner: { js: require } })
  return outfile
}

async function startDaemon(name: EngineName, dir: string, socketPath: string): Promise<ChildProcess> {
  const data = path.join(dir, 'data')
  await mkdir(data, { recursive: true })
  const log = await open(path.join(dir, 'engine.log'), 'a')
  const child = spawn(
    '/usr/bin/unshare',
    ['--net', '/bin/sh', '-c', `busybox ip link set lo up; exec ${command(name, dir, data, socketPath)}`],
    {
      // Podman's monitor leaves a file where it was started when a container runs out of memory.
      cwd: dir,
      env: {
        ...process.env,
        CONTAINERS_CONF: path.join(dir, 'containers.conf'),
        CONTAINERS_REGISTRIES_CONF: path.join(dir, 'registries.conf'),
        PATH: `${process.env['PATH']}:/usr/sbin:/sbin`,
      },
      stdio: ['ignore', log.fd, log.fd],
    },
  )
  await log.close()
  const deadline = Date.now() + READY_MILLISECONDS
  while (!(await answers(socketPath))) {
    if (Date.now() > deadline || child.exitCode !== null)
      throw new Error(`${name} did not start; see ${dir}/engine.log`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  return child
}

function command(name: EngineName, dir: string, data: string, socketPath: string): string {
  if (name === 'docker') {
    return `dockerd --data-root ${data} --exec-root ${dir}/exec --pidfile ${dir}/pid --host unix://${socketPath}`
  }
  const places = `--root ${data} --runroot ${dir}/run --tmpdir ${dir}/libpod`
  return `podman ${places} system service --time 0 unix://${socketPath}`
}

async function stopDaemon(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const gone = new Promise((resolve) => child.once('exit', resolve))
  child.kill('SIGTERM')
  // Podman waits for connections of commands that it forgot to close.
  const impatient = setTimeout(() => child.kill('SIGKILL'), STOP_MILLISECONDS)
  await gone
  clearTimeout(impatient)
}

function answers(socketPath: string): Promise<boolean> {
  return new Promise((resolve) => {
    const request = http.get({ socketPath, path: '/_ping' }, (answer) => {
      answer.resume()
      resolve(answer.statusCode === 200)
    })
    request.on('error', () => resolve(false))
  })
}

async function upload(socketPath: string, file: string): Promise<void> {
  const { size } = await stat(file)
  const headers = { 'content-type': 'application/x-tar', 'content-length': size }
  await new Promise<void>((resolve, reject) => {
    const request = http.request({ socketPath, method: 'POST', path: '/images/load', headers }, (answer) => {
      let text = ''
      answer.on('data', (chunk) => (text += String(chunk)))
      answer.on('end', () => (answer.statusCode === 200 ? resolve() : reject(new Error(text))))
    })
    request.on('error', reject)
    createReadStream(file).pipe(request)
  })
}

/**
 * Podman clears away after each container in a process of its own, which mounts the engine's folder once more. Its
 * monitors would start more of them, and one of a command beside a job may outlive both.
 */
async function endHelpers(dir: string): Promise<void> {
  const deadline = Date.now() + READY_MILLISECONDS
  for (let helpers = await helpersOf(dir); helpers.length > 0; helpers = await helpersOf(dir)) {
    if (Date.now() > deadline)
      throw new Error(`still there after the engine's end: ${helpers.map(({ line }) => line).join(', ')}`)
    for (const { pid } of helpers.filter(({ line }) => isMonitor(line)))
      await run('kill', ['-9', pid]).catch(gone)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

/** Podman's name server outlives its engine, and all engines of a machine would then ask the one in a network that is gone. */
async function endNameServer(network: string): Promise<void> {
  for (const { pid, line } of await processes()) {
    if (!/^\S*aardvark-dns /.test(line) || (await networkOf(Number(pid))) !== network) continue
    await run('kill', [pid]).catch(gone)
    await rm('/run/containers/networks/aardvark-dns', { recursive: true, force: true })
  }
}

async function networkOf(pid: number | undefined): Promise<string> {
  return readlink(`/proc/${pid}/ns/net`).catch(() => '')
}

const isMonitor = (line: string): boolean => /^\S*conmon /.test(line)
const gone = (): void => undefined

async function helpersOf(dir: string): Promise<{ pid: string; line: string }[]> {
  const all = await processes()
  return all.filter(({ line }) => (isMonitor(line) || /^\S*podman /.test(line)) && line.includes(dir))
}

async function processes(): Promise<{ pid: string; line: string }[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  return Promise.all(
    pids.map(async (pid) => {
      const line = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
      return { pid, line: line.replaceAll('\0', ' ').trim() }
    }),
  )
}

/** The engine that was just stopped may end some of its mounts itself meanwhile. */
async function unmountAll(dir: string): Promise<void> {
  for (const mount of await mountsBelow(dir)) {
    try {
      await run('umount', ['--lazy', mount])
    } catch (error) {
      if ((await mountsBelow(dir)).includes(mount)) throw error
    }
  }
}

async function mountsBelow(dir: string): Promise<string[]> {
  const mounts = (await readFile('/proc/self/mounts', 'utf8'))
    .split('\n')
    .map((line) => line.split(' ')[1] ?? '')
  return mounts.filter((place) => place.startsWith(`${dir}/`)).toReversed()
}
