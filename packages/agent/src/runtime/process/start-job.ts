import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { Readable } from 'node:stream'
import { RuntimeError } from '../runtime.ts'
import type { JobSpec } from '../runtime.ts'
import { bubblewrapArguments } from './bubblewrap.ts'
import { cgroupOf, makeCgroup } from './cgroup.ts'
import type { JobCgroup } from './cgroup.ts'
import type { Host } from './host.ts'
import { createJobFolder, isJobId, jobFolder, writeIdentity, writeRecord } from './job-folder.ts'
import type { JobFolder, JobRecord } from './job-folder.ts'
import { allDone } from '../job-files.ts'
import { LAUNCHER, STARTER } from './launcher.ts'
import { identify } from './processes.ts'

const READY_MILLISECONDS = 30_000
const ENV_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/

/** Starts a job in a folder that does not exist yet. The caller removes what is left when it throws. */
export async function startJob(
  dir: string,
  host: Host,
  spec: JobSpec,
  now: () => number,
): Promise<JobRecord> {
  checkSpec(spec)
  checkNetwork(host, spec)
  const folder = jobFolder(dir, spec.jobId)
  const { cgroups } = host
  const cgroup = cgroups && cgroupOf(cgroups, dir, spec.jobId)
  const record = recordOf(host, spec, cgroup, now())
  await createJobFolder(folder, spec.files)
  // It waits for its word: what it needs is made while it comes up.
  const launcher = spawnLauncher(folder, host, spec, cgroup)
  const ready = untilReady(launcher)
  const identity = launcher.pid === undefined ? undefined : identify(launcher.pid)
  try {
    await allDone([
      // The record first: it names the cgroup to whoever has to remove it.
      writeRecord(folder, record).then(() => cgroup && makeCgroup(cgroups, cgroup, spec.limits)),
      writeEnvironment(folder, host, spec),
      ...(identity ? [writeIdentity(folder, identity)] : []),
    ])
    if (identity) launcher.stdin?.write('go\n')
  } finally {
    launcher.stdin?.end()
  }
  const answer = await ready
  launcher.unref()
  if (answer.trim() !== 'ready') throw new RuntimeError('start', await startFailure(folder, spec, answer))
  return record
}

function recordOf(host: Host, spec: JobSpec, cgroup: JobCgroup | undefined, startedAt: number): JobRecord {
  return {
    jobId: spec.jobId,
    fence: spec.fence,
    command: spec.command,
    startedAt,
    timeoutSeconds: spec.limits.timeoutSeconds,
    graceSeconds: spec.limits.graceSeconds,
    memoryBytes: spec.limits.memoryBytes,
    confined: host.bubblewrap !== undefined,
    confinement: host.description.confinement,
    cgroup: cgroup?.folders ?? [],
    watchMemory: cgroup?.oomFile === undefined,
    watchTime: host.timeout === undefined,
  }
}

function checkSpec(spec: JobSpec): void {
  const texts = [...spec.command, ...Object.values(spec.env), ...spec.mounts.map((mount) => mount.path)]
  const badName = Object.keys(spec.env).find((name) => !ENV_NAME.test(name))
  const faults = [
    isJobId(spec.jobId) ? undefined : `The job id ${JSON.stringify(spec.jobId)} cannot name a folder.`,
    spec.command.length > 0 ? undefined : 'The job has no command.',
    badName === undefined ? undefined : `${JSON.stringify(badName)} is no name of an environment variable.`,
    texts.some((text) => text.includes('\0'))
      ? 'The command, environment or a mount holds a NUL byte.'
      : undefined,
  ]
  const fault = faults.find((found) => found !== undefined)
  if (fault !== undefined) throw new RuntimeError('start', fault)
}

/** A wall that the customer demands and that cannot be built is no reason to do without it. */
function checkNetwork({ bubblewrap }: Host, { network, ownNetwork }: JobSpec): void {
  if (ownNetwork?.isDemanded !== true || bubblewrap !== undefined) return
  const what = `This kind of job may have no network but ${network}, and without bubblewrap nothing keeps it from one.`
  throw new RuntimeError('start', `${what} Install bubblewrap, or change TENON_JOB_NETWORKS of the agent.`)
}

/** By file, not by argument: arguments of a process can be read by every user of the machine. */
async function writeEnvironment(folder: JobFolder, host: Host, spec: JobSpec): Promise<void> {
  const network = host.bubblewrap === undefined ? spec.ownNetwork?.openEnv : spec.ownNetwork?.env
  const env = { ...spec.env, ...network, HOME: folder.work, TMPDIR: folder.temporary }
  if (host.bubblewrap === undefined) {
    const lines = Object.entries(env).map(([name, value]) => `export ${name}=${quote(value)}\n`)
    await writeFile(path.join(folder.run, 'environment'), lines.join(''), { mode: 0o600 })
    return
  }
  const confinement = {
    workFolder: folder.work,
    tools: host.tools,
    mounts: spec.mounts,
    hasOwnNetwork: spec.ownNetwork !== undefined,
    mayNestUsers: spec.mayNestUsers,
    env,
  }
  const words = bubblewrapArguments(confinement).map((word) => `${word}\0`)
  await writeFile(path.join(folder.run, 'arguments'), words.join(''), { mode: 0o600 })
}

function spawnLauncher(
  folder: JobFolder,
  host: Host,
  spec: JobSpec,
  cgroup: JobCgroup | undefined,
): ChildProcess {
  const { limits } = spec
  const clock =
    host.timeout === undefined
      ? []
      : [host.timeout, '--foreground', '--signal=USR1', String(limits.timeoutSeconds)]
  const folders = cgroup?.folders ?? []
  const walls = host.bubblewrap === undefined ? [] : [host.bubblewrap, '--info-fd', '8', '--args', '9', '--']
  const launcher = [...clock, host.shell, '-c', LAUNCHER, 'tenon-job']
  const settings = [String(limits.graceSeconds), cgroup?.oomFile ?? '-', String(folders.length), ...folders]
  const starter = [host.setsid, ...walls, host.shell, '-c', STARTER, 'tenon-job', ...spec.command]
  const [program = host.shell, ...rest] = [...launcher, ...settings, ...starter]
  return spawn(program, rest, {
    cwd: folder.run,
    // The folder marks the launcher's processes as this job's; see `jobProcesses`.
    env: { PATH: '/usr/local/bin:/usr/bin:/bin', TMPDIR: folder.temporary },
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore', 'pipe'],
  })
}

/** What the starter says: `ready`, or why not; empty when it never came to speak. */
function untilReady(launcher: ChildProcess): Promise<string> {
  const speaking = launcher.stdio[3] as Readable
  launcher.stdin?.on('error', () => undefined)
  const ready = new Promise<string>((resolve, reject) => {
    let said = ''
    const timer = setTimeout(() => speaking.destroy(), READY_MILLISECONDS)
    const finish = () => {
      clearTimeout(timer)
      speaking.destroy()
      resolve(said)
    }
    speaking.on('data', (bytes: Buffer) => {
      said += bytes.toString()
      if (said.endsWith('\n')) finish()
    })
    speaking.on('close', finish)
    speaking.on('error', finish)
    launcher.on('error', (cause) => {
      clearTimeout(timer)
      reject(new RuntimeError('start', 'The launcher could not be started.', { cause }))
    })
  })
  // It may fail before anybody waits for it.
  ready.catch(() => undefined)
  return ready
}

async function startFailure(folder: JobFolder, spec: JobSpec, answer: string): Promise<string> {
  const printed = await readFile(folder.log, 'utf8').catch(() => '')
  const detail = answer.trim() || printed.trim().split('\n').at(-1)
  return `Job ${spec.jobId} could not be started: ${detail || 'the launcher gave no reason.'}`
}

function quote(value: string): string {
  return `'${value.replaceAll("'", `'\\''`)}'`
}
