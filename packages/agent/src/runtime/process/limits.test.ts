import { describe, expect, it } from 'vitest'
import { cgroupMounts, limitFiles } from './limits.ts'

const limits = { memoryBytes: 1024, cpus: 0.5, pids: 9, timeoutSeconds: 1, graceSeconds: 1 }

describe('the limits of a job', () => {
  it('become files of a cgroup of version 2', () => {
    const files = limitFiles(2, limits).map(({ file, value }) => [file, value])
    expect(Object.fromEntries(files)).toEqual({
      'memory.max': '1024',
      'memory.swap.max': '0',
      'cpu.max': '50000 100000',
      'pids.max': '9',
    })
  })

  it('become files of the cgroups of version 1, memory before memory with swap', () => {
    const files = limitFiles(1, limits).map(({ controller, file, value }) => [controller, file, value])
    expect(files).toEqual([
      ['memory', 'memory.limit_in_bytes', '1024'],
      ['memory', 'memory.memsw.limit_in_bytes', '1024'],
      ['cpu', 'cpu.cfs_period_us', '100000'],
      ['cpu', 'cpu.cfs_quota_us', '50000'],
      ['pids', 'pids.max', '9'],
    ])
  })
})

describe('the mounts of cgroups', () => {
  it('are found for both versions side by side', () => {
    const mountinfo = [
      '32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct',
      '35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory',
      '41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw',
      '42 31 0:39 / /proc rw - proc proc rw',
      '',
    ].join('\n')
    expect(cgroupMounts(mountinfo)).toEqual({
      v1: { cpu: '/sys/fs/cgroup/cpu,cpuacct', memory: '/sys/fs/cgroup/memory' },
      v2: '/sys/fs/cgroup/unified',
    })
  })

  it('are absent where nothing is mounted', () => {
    expect(cgroupMounts('')).toEqual({ v1: {}, v2: undefined })
  })
})
