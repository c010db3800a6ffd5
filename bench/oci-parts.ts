import { spawn } from 'node:child_process'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { endedCpuMs, ownCpuMs } from './cpu.ts'

export interface Server {
  url: string
  stop(): Promise<void>
}

/** What one side of a comparison took. Processor time counts on a machine that others use too. */
export interface Cost {
  ms: number
  cpuMs: number
  /** Of the registries at both ends. */
  serversCpuMs: number
  rssMb: number
  /** Without the start of the process, where it tells. */
  workMs?: number
}

export interface Parts {
  startTheirs(): Promise<Server>
  startOurs(): Promise<Server>
  /** The whole process, start included. */
  run(program: string, args: string[]): Promise<Cost>
  /** Several processes at once as one cost. */
  together(works: (() => Promise<Cost>)[]): Promise<Cost>
  stopAll(): Promise<void>
}

const LOOK_MS = 20

export function createParts(dir: string, registryBundle: string): Parts {
  const running = new Map<Server, number>()
  let names = 0

  const start = async (program: string, args: string[], url: string, folder: string): Promise<Server> => {
    const child = spawn(program, args, { stdio: 'ignore' })
    const ended = new Promise<void>((resolve) => child.once('close', () => resolve()))
    while (!(await answers(url))) {
      if (child.exitCode !== null) throw new Error(`${program} ended with ${child.exitCode}`)
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
    }
    const server: Server = {
      url,
      stop: async () => {
        running.delete(server)
        child.kill('SIGKILL')
        await ended
        await rm(folder, { recursive: true, force: true })
      },
    }
    running.set(server, child.pid ?? -1)
    return server
  }

  const serversCpuMs = (): number => [...running.values()].reduce((sum, pid) => sum + ownCpuMs(pid), 0)

  const together = async (works: (() => Promise<Cost>)[]): Promise<Cost> => {
    const before = { at: performance.now(), cpu: endedCpuMs(process.pid), servers: serversCpuMs() }
    const all = await Promise.all(works.map((work) => work()))
    return {
      ms: performance.now() - before.at,
      cpuMs: endedCpuMs(process.pid) - before.cpu,
      serversCpuMs: serversCpuMs() - before.servers,
      rssMb: all.reduce((sum, { rssMb }) => sum + rssMb, 0),
      ...(all.length === 1 && all[0]?.workMs !== undefined ? { workMs: all[0].workMs } : {}),
    }
  }

  return {
    startTheirs: async () => {
      const port = await freePort()
      const folder = join(dir, `theirs-${names++}`)
      const storage = `storage: {filesystem: {rootdirectory: ${folder}}}`
      const http = `http: {addr: '127.0.0.1:${port}'}`
      await writeFile(`${folder}.yml`, `version: 0.1\nlog: {level: error}\n${storage}\n${http}\n`)
      return start('docker-registry', ['serve', `${folder}.yml`], `http://127.0.0.1:${port}`, folder)
    },
    startOurs: async () => {
      const port = await freePort()
      const folder = join(dir, `ours-${names++}`)
      const args = [registryBundle, '--dir', folder, '--port', String(port), '--key-file', join(dir, 'key')]
      return start(process.execPath, args, `http://127.0.0.1:${port}`, folder)
    },
    run: (program, args) => together([() => runOnce(program, args)]),
    together,
    stopAll: async () => {
      await Promise.all([...running.keys()].map((server) => server.stop()))
    },
  }
}

const runOnce = (program: string, args: string[]): Promise<Cost> =>
  new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] })
    let said = ''
    child.stdout.on('data', (chunk: Buffer) => (said += chunk.toString()))
    let rssMb = 0
    const look = setInterval(() => {
      void readFile(`/proc/${child.pid}/status`, 'utf8').then(
        (text) => (rssMb = Math.max(rssMb, Number(/VmHWM:\s+(\d+)/.exec(text)?.[1] ?? 0) / 1024)),
        () => undefined,
      )
    }, LOOK_MS)
    child.once('error', reject)
    child.once('close', (code) => {
      clearInterval(look)
      const work = /"ms":([\d.]+)/.exec(said)?.[1]
      const told = work === undefined ? {} : { workMs: Number(work) }
      // Time and processor are taken around this, over all that run together.
      if (code === 0) resolve({ ms: 0, cpuMs: 0, serversCpuMs: 0, rssMb, ...told })
      else reject(new Error(`${program} ${args[0]} ended with ${code}`))
    })
  })

const answers = (url: string): Promise<boolean> =>
  fetch(`${url}/v2/`).then(
    ({ status }) => status === 200 || status === 401,
    () => false,
  )

const freePort = (): Promise<number> =>
  new Promise((resolve) => {
    const server = createServer()
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as AddressInfo
      server.close(() => resolve(port))
    })
  })
