import { execFile, spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { createReadStream } from 'node:fs'
import { mkdir, mkdtemp, open, rm, stat, writeFile } from 'node:fs/promises'
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
  /** Runs a program in the network of the engine, where 127.0.0.1 is the engine's. */
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
    spawnBeside: (program, args) =>
      spawn('/usr/bin/nsenter', ['--target', String(daemon.pid), '--net', program, ...args], {
        stdio: ['ignore', 'pipe', 'inherit'],
      }),
    async restart() {
      await stopDaemon(daemon)
      daemon = await startDaemon(name, dir, socketPath)
    },
    async close() {
      await stopDaemon(daemon)
      await unmountAll(dir)
      await rm(dir, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}

/** An image of BusyBox alone, which every test of a runtime can do with; the whole one is some 50 MB. */
export async function buildTestImage(dir: string, args = ['--bare']): Promise<BuiltImage> {
  const script = path.join(ROOT, 'scripts/images.mjs')
  const { stdout } = await run(process.execPath, [script, ...args, '--outdir', dir])
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

async function unmountAll(dir: string): Promise<void> {
  const { stdout } = await run('cat', ['/proc/self/mounts'])
  const mounts = stdout.split('\n').map((line) => line.split(' ')[1] ?? '')
  for (const mount of mounts.filter((place) => place.startsWith(`${dir}/`)).toReversed()) {
    await run('umount', ['--lazy', mount])
  }
}
