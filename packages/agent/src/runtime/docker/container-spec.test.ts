import { constantFrom, dictionary, property, string, assert, stringMatching } from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { JobSpec } from '../runtime.ts'
import { buildContainer } from './container-spec.ts'
import type { ContainerParts } from './container-spec.ts'
import { jobFolder } from './job-folder.ts'

const spec: JobSpec = {
  jobId: 'job-1',
  fence: 3,
  command: [],
  env: { PATH: '/bin' },
  files: { token: 'the-token' },
  mounts: [{ path: '/run/api', writable: false }],
  network: 'egress',
  limits: { memoryBytes: 1000, cpus: 0.25, pids: 10, timeoutSeconds: 60, graceSeconds: 5 },
}
const parts: ContainerParts = {
  spec,
  image: { id: 'sha256:1', command: ['/run-me', 'now'], envNames: ['PATH', 'LANG', 'bad name'] },
  folder: jobFolder('/jobs', 'job-1'),
  agentKey: 'key',
  user: { uid: 7, gid: 8 },
  workBytes: undefined,
  hasSelinux: false,
}

describe('the container of a job', () => {
  it('is as confined as an engine can make it', () => {
    expect(buildContainer(parts)).toMatchObject({
      User: '7:8',
      Labels: { 'tenon.agent': 'key', 'tenon.job': 'job-1', 'tenon.fence': '3' },
      HostConfig: {
        ReadonlyRootfs: true,
        CapDrop: ['ALL'],
        Privileged: false,
        SecurityOpt: ['no-new-privileges'],
        Memory: 1000,
        MemorySwap: 1000,
        NanoCpus: 250_000_000,
        PidsLimit: 18,
        RestartPolicy: { Name: 'no' },
        LogConfig: { Type: 'none' },
      },
    })
  })

  it('runs the program of its image unless it is told another', () => {
    expect(buildContainer(parts).Cmd.slice(4)).toEqual(['/run-me', 'now'])
    const told = { ...parts, spec: { ...spec, command: ['sh'] } }
    expect(buildContainer(told).Cmd.slice(4)).toEqual(['sh'])
  })

  it('forgets the variables of its image that the job does not ask for', () => {
    const forgotten = buildContainer(parts).Cmd[3]?.split(' ')
    expect(forgotten).toContain('LANG')
    expect(forgotten).not.toContain('PATH')
    expect(forgotten).not.toContain('bad')
  })

  it('has a network only when it needs one', () => {
    expect(buildContainer(parts).HostConfig.NetworkMode).toBe('default')
    const ownNetwork = { env: { TENON_JOB_PROXY: '127.0.0.1:3128' }, isDemanded: false }
    const closed = buildContainer({ ...parts, spec: { ...spec, ownNetwork } })
    expect(closed.HostConfig.NetworkMode).toBe('none')
    expect(closed.Env).toContain('TENON_JOB_PROXY=127.0.0.1:3128')
  })

  it('works on the disk, or in as much memory as it is given', () => {
    const targets = (built: ContainerParts) =>
      buildContainer(built).HostConfig.Mounts.map(({ Target }) => Target)
    expect(targets(parts)).toContain('/jobs/job-1/work')
    const bounded = { ...parts, workBytes: 4096 }
    expect(targets(bounded)).not.toContain('/jobs/job-1/work')
    expect(buildContainer(bounded).HostConfig.Tmpfs['/jobs/job-1/work']).toContain('size=4096')
  })

  it('never holds the content of a file, whatever else is in the spec', () => {
    const names = stringMatching(/^[a-z]{1,8}$/)
    const contents = string({ minLength: 12, unit: constantFrom('#', '~') })
    assert(
      property(dictionary(names, contents), dictionary(names, names), (files, env) => {
        const built = JSON.stringify(buildContainer({ ...parts, spec: { ...spec, files, env } }))
        for (const content of Object.values(files)) expect(built).not.toContain(content)
      }),
    )
  })
})
