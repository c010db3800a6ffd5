import {
  bubblewrapArguments,
  detectBubblewrap,
  toolFolders,
} from '../packages/agent/src/runtime/process/bubblewrap.ts'
import { spawn } from 'node:child_process'
import { mkdirSync, rmSync } from 'node:fs'
import http from 'node:http'
import { join } from 'node:path'

/** One job without Tenon: resolves when the program has ended and its output was read. */
export type BareRun = () => Promise<void>

/** What the same walls cost without an agent: bubblewrap alone, or nothing where it is not usable. */
export async function bareProcess(dir: string, program: string[]): Promise<BareRun> {
  const found = await detectBubblewrap()
  let count = 0
  return async () => {
    const workFolder = join(dir, `bare-${++count}`)
    mkdirSync(workFolder, { recursive: true })
    const tools = toolFolders([process.execPath, ...program.slice(1)])
    const env = { PATH: '/usr/local/bin:/usr/bin:/bin', HOME: workFolder }
    const confinement = { workFolder, tools, mounts: [], hasOwnNetwork: false, env }
    const walls = 'program' in found ? [found.program, ...bubblewrapArguments(confinement), '--'] : []
    const [command = '', ...args] = [...walls, ...program]
    const child = spawn(command, args, { cwd: workFolder, env, stdio: ['ignore', 'pipe', 'pipe'] })
    const output: Buffer[] = []
    child.stdout.on('data', (chunk: Buffer) => output.push(chunk))
    child.stderr.on('data', (chunk: Buffer) => output.push(chunk))
    const code = await new Promise((resolve) => child.on('close', resolve))
    rmSync(workFolder, { recursive: true, force: true })
    if (code !== 0)
      throw new Error(`the bare job ended with ${String(code)}: ${Buffer.concat(output).toString()}`)
  }
}

/** The limits and walls of a job, without Tenon's own files and its log. */
const WALLS = {
  ReadonlyRootfs: true,
  NetworkMode: 'default',
  CapDrop: ['ALL'],
  SecurityOpt: ['no-new-privileges'],
  Memory: 100_000_000,
  MemorySwap: 100_000_000,
  NanoCpus: 1_000_000_000,
  PidsLimit: 108,
  Tmpfs: { '/tmp': 'rw,nosuid,nodev,noexec,size=67108864,mode=1777' },
}

/** Create, start, wait, logs over the Engine API: what `docker run` and `podman run` do. Removal is not in it. */
export function bareEngine(socketPath: string, image: string): BareRun & { removeAll(): Promise<void> } {
  const ended: string[] = []
  const run = async () => {
    const body = { Image: image, HostConfig: WALLS }
    const { Id: id } = (await call(socketPath, 'POST', '/containers/create', body)) as { Id: string }
    await call(socketPath, 'POST', `/containers/${id}/start`)
    const { StatusCode: code } = (await call(socketPath, 'POST', `/containers/${id}/wait`)) as {
      StatusCode: number
    }
    await call(socketPath, 'GET', `/containers/${id}/logs?stdout=1&stderr=1`)
    ended.push(id)
    if (code !== 0) throw new Error(`the bare container ended with ${code}`)
  }
  const removeAll = async () => {
    for (const id of ended.splice(0)) await call(socketPath, 'DELETE', `/containers/${id}`)
  }
  return Object.assign(run, { removeAll })
}

function call(socketPath: string, method: string, path: string, body?: object): Promise<unknown> {
  const payload = body && JSON.stringify(body)
  const headers = payload
    ? { 'content-type': 'application/json', 'content-length': Buffer.byteLength(payload) }
    : {}
  return new Promise((resolve, reject) => {
    const request = http.request({ socketPath, method, path, headers, agent: false }, (response) => {
      const parts: Buffer[] = []
      response.on('data', (part: Buffer) => parts.push(part))
      response.on('end', () => {
        const text = Buffer.concat(parts).toString('utf8')
        if ((response.statusCode ?? 500) >= 400) return reject(new Error(`${method} ${path}: ${text}`))
        resolve(text.startsWith('{') ? JSON.parse(text) : text)
      })
    })
    request.on('error', reject)
    request.end(payload)
  })
}
