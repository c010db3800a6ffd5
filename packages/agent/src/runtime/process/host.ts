import { execFile } from 'node:child_process'
import { access, constants, realpath } from 'node:fs/promises'
import { promisify } from 'node:util'
import type { RuntimeDescription } from '../runtime.ts'
import { detectBubblewrap, toolFolders } from './bubblewrap.ts'
import { detectCgroups } from './cgroup.ts'
import type { CgroupHost } from './cgroup.ts'
import { CONTROLLERS } from './limits.ts'

const run = promisify(execFile)

/** What this machine lets a job be started with, found by trying. */
export interface Host {
  shell: string
  setsid: string
  /** Absent: the agent itself watches the time limit. */
  timeout: string | undefined
  /** Absent: jobs are not confined. */
  bubblewrap: string | undefined
  /** Absent, or without `memory`: the agent itself watches the memory limit. */
  cgroups: CgroupHost | undefined
  tools: string[]
  description: RuntimeDescription
}

export interface HostOptions {
  confine: boolean
  useCgroups: boolean
  cgroupName: string
}

export async function detectHost(options: HostOptions): Promise<Host> {
  const [shell, setsid, timeout, bubblewrap, cgroups, node] = await Promise.all([
    firstProgram(['/bin/dash', '/bin/sh']),
    firstProgram(['/usr/bin/setsid', '/bin/setsid']),
    detectTimeout(),
    options.confine ? detectBubblewrap() : { missing: 'off' as const, detail: '' },
    options.useCgroups ? detectCgroups(options.cgroupName) : undefined,
    realpath(process.execPath),
  ])
  if (shell === undefined || setsid === undefined) {
    throw new Error(
      'The process runtime needs /bin/sh and setsid. Install them: apt-get install dash util-linux.',
    )
  }
  const program = 'program' in bubblewrap ? bubblewrap.program : undefined
  const warnings = [
    ...('missing' in bubblewrap ? [confinementWarning(bubblewrap.missing, bubblewrap.detail)] : []),
    ...cgroupWarnings(cgroups),
    ...(timeout === undefined
      ? ['Time limits hold only while the agent runs. Install GNU timeout: apt-get install coreutils.']
      : []),
  ]
  const description = { confinement: confinementWords(program, cgroups), warnings }
  return { shell, setsid, timeout, bubblewrap: program, cgroups, tools: toolFolders([node]), description }
}

function confinementWords(bubblewrap: string | undefined, cgroups: CgroupHost | undefined): string {
  const walls = bubblewrap === undefined ? 'not confined' : 'confined by bubblewrap'
  const held = CONTROLLERS.filter((controller) => cgroups?.bases[controller] !== undefined)
  const limits =
    cgroups === undefined || held.length === 0
      ? 'memory watched by the agent'
      : `${held.join(', ')} limited by cgroup v${cgroups.version}`
  return `${walls}; ${limits}`
}

function confinementWarning(missing: 'absent' | 'forbidden' | 'off', detail: string): string {
  const network =
    'They have the network of this machine, its loopback included, whatever their manifest says.'
  switch (missing) {
    case 'absent':
      return `Jobs are not confined: they see all files of this user. ${network} Install bubblewrap: apt-get install bubblewrap.`
    case 'forbidden':
      return `Jobs are not confined: bubblewrap is here but may not make namespaces (${detail.slice(0, 150)}). ${network} Allow user namespaces: sysctl kernel.unprivileged_userns_clone=1, or run the agent outside of a restricted container.`
    case 'off':
      return `Jobs are not confined: the configuration says so. ${network}`
  }
}

function cgroupWarnings(cgroups: CgroupHost | undefined): string[] {
  const missing = CONTROLLERS.filter((controller) => cgroups?.bases[controller] === undefined)
  if (missing.length === 0) return []
  return [
    `No writable cgroup for ${missing.join(', ')}: memory is watched by the agent, CPU and process count are not limited. Run the agent as root with /sys/fs/cgroup writable.`,
  ]
}

async function detectTimeout(): Promise<string | undefined> {
  const program = await firstProgram(['/usr/bin/timeout', '/bin/timeout'])
  if (program === undefined) return undefined
  // BusyBox has no --foreground, without which the whole process group gets the signal.
  return run(program, ['--foreground', '--signal=USR1', '5', '/bin/sh', '-c', 'exit 0']).then(
    () => program,
    () => undefined,
  )
}

export async function firstProgram(candidates: string[]): Promise<string | undefined> {
  for (const candidate of candidates) {
    const found = await access(candidate, constants.X_OK).then(
      () => true,
      () => false,
    )
    if (found) return candidate
  }
  return undefined
}
