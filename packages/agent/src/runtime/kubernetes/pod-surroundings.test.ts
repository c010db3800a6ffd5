import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { JOB_SURROUNDINGS } from '@tenon/protocol'
import { expect, it } from 'vitest'
import type { JobSpec } from '../runtime.ts'
import { detectBubblewrap } from '../process/bubblewrap.ts'
import { folderOf, podSpec } from './pod-spec.ts'
import { INSIDE } from './pod-scripts.ts'

const bubblewrap = await detectBubblewrap()
const absent = 'program' in bubblewrap ? undefined : 'bubblewrap is absent'
const program = 'program' in bubblewrap ? bubblewrap.program : ''

const spec: JobSpec = {
  jobId: 'job_1',
  fence: 1,
  command: ['env'],
  env: { PATH: '/usr/bin:/bin', TENON_JOB_TOKEN_FILE: 'token' },
  files: {},
  mounts: [],
  network: 'cluster',
  limits: { memoryBytes: 1e9, cpus: 1, pids: 64, timeoutSeconds: 60, graceSeconds: 1 },
}
const KEYS = ['AWS_SECRET_ACCESS_KEY', 'AWS_SESSION_TOKEN', 'AWS_CONTAINER_AUTHORIZATION_TOKEN']

/** The container's own command, as the first process of a namespace, with what the kubelet and a cloud's webhook add. */
it.skipIf(absent !== undefined)(
  `a job in a pod keeps what cluster and cloud tell it, and nothing else (${absent ?? 'bubblewrap is here'})`,
  () => {
    const [container] = podSpec({
      name: 'tenon-job-1',
      spec,
      image: 'none',
      command: [],
      workBytes: 1,
      hasPullSecret: false,
    }).containers
    const plain = (text: string) => text.replaceAll('$$', '$')
    const own = container!.env.map(({ name, value }) => [name, plain(value)])
    const told = [...JOB_SURROUNDINGS, ...KEYS, 'SOMETHING_ELSE'].map((name) => [name, `of ${name}`])
    const dir = mkdtempSync(join(tmpdir(), 'tenon-pod-'))
    const root = ['usr', 'bin', 'lib', 'lib64', 'etc'].flatMap((name) => [
      '--ro-bind-try',
      `/${name}`,
      `/${name}`,
    ])
    const places = ['--bind', dir, INSIDE.run, '--tmpfs', folderOf(spec.jobId), '--dir', INSIDE.files]
    try {
      const walls = [...root, '--proc', '/proc', '--dev', '/dev', ...places, '--unshare-pid', '--as-pid-1']
      const { status } = spawnSync(
        program,
        [...walls, '--', ...[...container!.command, ...container!.args].map(plain)],
        { env: Object.fromEntries([...told, ...own]) as NodeJS.ProcessEnv, stdio: 'ignore', timeout: 30_000 },
      )
      const log = readFileSync(join(dir, 'log'), 'utf8')
      expect([status, log]).toEqual([0, expect.stringContaining('PATH=/usr/bin:/bin\n')])
      const seen = log
        .trim()
        .split('\n')
        .map((line) => line.split('=')[0]!)
      expect(seen.toSorted()).toEqual([...JOB_SURROUNDINGS, ...own.map(([name]) => name!)].toSorted())
    } finally {
      rmSync(dir, { recursive: true, force: true })
    }
  },
)
