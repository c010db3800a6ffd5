import type { JobLimits } from '../runtime.ts'

export const CONTROLLERS = ['memory', 'cpu', 'pids'] as const
export type Controller = (typeof CONTROLLERS)[number]

export interface LimitFile {
  controller: Controller
  file: string
  value: string
  /** Swap accounting is a kernel option: without it the memory limit holds all the same. */
  optional: boolean
}

const PERIOD_MICROSECONDS = 100_000

/** The files of a job's cgroup that hold its limits, in the order in which they must be written. */
export function limitFiles(version: 1 | 2, limits: JobLimits): LimitFile[] {
  const memory = String(limits.memoryBytes)
  const quota = String(Math.max(1_000, Math.round(limits.cpus * PERIOD_MICROSECONDS)))
  const pids = String(limits.pids)
  if (version === 2) {
    return [
      must('memory', 'memory.max', memory),
      { ...must('memory', 'memory.swap.max', '0'), optional: true },
      must('cpu', 'cpu.max', `${quota} ${PERIOD_MICROSECONDS}`),
      must('pids', 'pids.max', pids),
    ]
  }
  return [
    must('memory', 'memory.limit_in_bytes', memory),
    { ...must('memory', 'memory.memsw.limit_in_bytes', memory), optional: true },
    must('cpu', 'cpu.cfs_period_us', String(PERIOD_MICROSECONDS)),
    must('cpu', 'cpu.cfs_quota_us', quota),
    must('pids', 'pids.max', pids),
  ]
}

function must(controller: Controller, file: string, value: string): LimitFile {
  return { controller, file, value, optional: false }
}

/** The file whose `oom_kill` line counts the processes that the kernel killed for memory. */
export function oomFile(version: 1 | 2): string {
  return version === 2 ? 'memory.events' : 'memory.oom_control'
}

/** Where the controllers are mounted, out of `/proc/self/mountinfo`: version 2 only where it has them all. */
export function cgroupMounts(mountinfo: string): {
  v1: Partial<Record<Controller, string>>
  v2: string | undefined
} {
  const v1: Partial<Record<Controller, string>> = {}
  let v2: string | undefined
  for (const line of mountinfo.split('\n')) {
    const [left, right] = line.split(' - ')
    const mountPoint = left?.split(' ')[4]
    if (mountPoint === undefined || right === undefined) continue
    const [type, , options = ''] = right.split(' ')
    if (type === 'cgroup2') v2 ??= mountPoint
    if (type !== 'cgroup') continue
    for (const option of options.split(',')) {
      const controller = CONTROLLERS.find((name) => name === option)
      if (controller !== undefined) v1[controller] ??= mountPoint
    }
  }
  return { v1, v2 }
}
