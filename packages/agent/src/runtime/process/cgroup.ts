import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdir, readdir, readFile, rmdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import type { JobLimits } from '../runtime.ts'
import { CONTROLLERS, cgroupMounts, limitFiles, oomFile } from './limits.ts'
import type { Controller } from './limits.ts'

const run = promisify(execFile)

/** Where jobs' cgroups can be made here. At the root of each mount: a job must not end with the agent's service. */
export interface CgroupHost {
  version: 1 | 2
  bases: Partial<Record<Controller, string>>
  /** Where this process itself is, in one of the hierarchies. */
  own?: OwnCgroup | undefined
}

interface OwnCgroup {
  /** Its line in `/proc/self/cgroup`. */
  line: string
  file: string
}

/** A job's own cgroup: one folder with version 2, one per controller with version 1. */
export interface JobCgroup {
  name: string
  folders: string[]
  oomFile: string | undefined
}

/** Finds the cgroup version that is mounted and writable by making, limiting and joining one. */
export async function detectCgroups(name = 'tenon', mountinfo?: string): Promise<CgroupHost | undefined> {
  const mounts = cgroupMounts(mountinfo ?? (await readFile('/proc/self/mountinfo', 'utf8').catch(() => '')))
  if (mounts.v2 !== undefined) {
    const base = path.join(mounts.v2, name)
    await enableControllers(mounts.v2, base)
    const bases = Object.fromEntries(CONTROLLERS.map((controller) => [controller, base]))
    const host: CgroupHost = { version: 2, bases }
    if (await works(host)) return { ...host, own: await findOwn(mounts.v2, '') }
    await rmdir(base).catch(() => undefined)
  }
  const bases: CgroupHost['bases'] = {}
  for (const controller of CONTROLLERS) {
    const mount = mounts.v1[controller]
    if (mount === undefined) continue
    const base = path.join(mount, name)
    if (await works({ version: 1, bases: { [controller]: base } })) bases[controller] = base
  }
  const [controller] = CONTROLLERS.filter((name) => bases[name] !== undefined)
  if (controller === undefined) return undefined
  return { version: 1, bases, own: await findOwn(mounts.v1[controller]!, controller) }
}

async function findOwn(mount: string, controller: Controller | ''): Promise<OwnCgroup | undefined> {
  const line = (await ownLines()).find((one) => one.split(':')[1]?.split(',').includes(controller))
  if (line === undefined) return undefined
  const file = path.join(mount, line.split(':').slice(2).join(':'), 'cgroup.procs')
  const members = await readFile(file, 'utf8').catch(() => '')
  return members.split('\n').includes(String(process.pid)) ? { line, file } : undefined
}

async function ownLines(): Promise<string[]> {
  return (await readFile('/proc/self/cgroup', 'utf8').catch(() => '')).split('\n')
}

/**
 * A process that joins a cgroup waits until every processor has noticed, some 9 ms, unless somebody waited for that a moment
 * ago. This process joins its own once more, which changes nothing: the wait begins before a job needs it.
 */
export async function foreseeJoin({ own }: CgroupHost): Promise<void> {
  if (own === undefined || !(await ownLines()).includes(own.line)) return
  await writeFile(own.file, String(process.pid)).catch(() => undefined)
}

async function enableControllers(mount: string, base: string): Promise<void> {
  const all = CONTROLLERS.map((controller) => `+${controller}`).join(' ')
  try {
    await writeFile(path.join(mount, 'cgroup.subtree_control'), all)
    await mkdir(base, { recursive: true })
    await writeFile(path.join(base, 'cgroup.subtree_control'), all)
  } catch {
    // The trial that follows tells whether the controllers are there.
  }
}

async function works(host: CgroupHost): Promise<boolean> {
  const limits = { memoryBytes: 64 << 20, cpus: 1, pids: 16, timeoutSeconds: 1, graceSeconds: 1 }
  let made: JobCgroup | undefined
  try {
    made = cgroupOf(host, '/probe', String(process.pid))
    await makeCgroup(host, made, limits)
    const joins = made.folders.map((folder) => `echo 0 >'${folder}/cgroup.procs'`).join(' && ')
    await run('/bin/sh', ['-c', joins])
    return true
  } catch {
    return false
  } finally {
    if (made !== undefined) await removeCgroup(made.folders)
  }
}

/** Pure: named by the runtime's folder too, so that two agents on one machine never share one. */
export function cgroupOf(host: CgroupHost, runtimeDir: string, jobId: string): JobCgroup {
  const name = `${createHash('sha256').update(runtimeDir).digest('hex').slice(0, 12)}-${jobId}`
  const { memory } = host.bases
  return {
    name,
    folders: [...new Set(Object.values(host.bases))].map((base) => path.join(base, name)),
    oomFile: memory && path.join(memory, name, oomFile(host.version)),
  }
}

export async function makeCgroup(host: CgroupHost, cgroup: JobCgroup, limits: JobLimits): Promise<void> {
  for (const folder of cgroup.folders) await mkdir(folder, { recursive: true })
  for (const { controller, file, value, optional } of limitFiles(host.version, limits)) {
    const base = host.bases[controller]
    if (base === undefined) continue
    const written = writeFile(path.join(base, cgroup.name, file), value)
    await (optional ? written.catch(() => undefined) : written)
  }
}

export async function cgroupProcesses(folders: string[]): Promise<number[]> {
  const pids = new Set<number>()
  for (const folder of folders) {
    const text = await readFile(path.join(folder, 'cgroup.procs'), 'utf8').catch(() => '')
    for (const line of text.split('\n')) if (line !== '') pids.add(Number(line))
  }
  return [...pids]
}

/** Only an empty cgroup can go; false when one still holds processes. */
export async function removeCgroup(folders: string[]): Promise<boolean> {
  let gone = true
  for (const folder of folders) {
    try {
      for (const entry of await readdir(folder, { withFileTypes: true })) {
        if (entry.isDirectory()) await removeCgroup([path.join(folder, entry.name)])
      }
      await rmdir(folder)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') gone = false
    }
  }
  return gone
}
