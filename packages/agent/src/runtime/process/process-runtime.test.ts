import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { pino } from 'pino'
import { expect, it, vi } from 'vitest'
import { describeRuntimeContract } from '../contract.testing.ts'
import type { ContractHarness, ContractPrograms } from '../contract.testing.ts'
import type { JobSpec } from '../runtime.ts'
import { detectBubblewrap } from './bubblewrap.ts'
import { detectCgroups } from './cgroup.ts'
import { jobFolder, readRecord } from './job-folder.ts'
import { createProcessRuntime } from './process-runtime.ts'
import { jobProcesses } from './processes.ts'

const bubblewrap = 'program' in (await detectBubblewrap())
const cgroups = (await detectCgroups('tenon-test')) !== undefined

const variants = [
  { name: 'process (bare)', confine: false, useCgroups: false, possible: true },
  { name: 'process (cgroup)', confine: false, useCgroups: true, possible: cgroups },
  { name: 'process (bubblewrap)', confine: true, useCgroups: false, possible: bubblewrap },
  { name: 'process (bubblewrap, cgroup)', confine: true, useCgroups: true, possible: bubblewrap && cgroups },
]

for (const { name, confine, useCgroups, possible } of variants) {
  describeRuntimeContract(name, () => makeHarness({ confine, useCgroups }), possible)
}

it.skipIf(!cgroups)(
  'tells that a process of a job was killed for memory though the job went on',
  async () => {
    const harness = await makeHarness({ confine: false, useCgroups: true })
    const runtime = harness.open()
    const child = (programs.exceedMemory().command ?? []).map((part) => `'${part}'`).join(' ')
    const spec: JobSpec = {
      jobId: 'job_child',
      fence: 1,
      env: {},
      files: {},
      mounts: [],
      network: 'egress',
      limits: { memoryBytes: 128 << 20, cpus: 1, pids: 64, timeoutSeconds: 60, graceSeconds: 1 },
      command: ['/bin/sh', '-c', `${child}; exit 0`],
    }
    await runtime.start(spec)
    const exit = await runtime.wait(spec.jobId, new AbortController().signal)
    await runtime.remove(spec.jobId)
    await harness.close()
    expect(exit).toMatchObject({ reason: 'completed', memoryKills: 1 })
  },
)

async function makeHarness(options: { confine: boolean; useCgroups: boolean }): Promise<ContractHarness> {
  const dir = await mkdtemp(path.join(tmpdir(), 'tenon-process-'))
  const log = pino({ level: 'silent' })
  const cgroupFolders = new Map<string, string[]>()
  return {
    open: () => createProcessRuntime({ dir, log, cgroupName: 'tenon-test', ...options }),
    programs,
    isConfined: options.confine,
    async kill(jobId) {
      const pid = await programPid(jobFolder(dir, jobId).temporary)
      process.kill(pid, 'SIGKILL')
    },
    async traces(jobId) {
      const folder = jobFolder(dir, jobId)
      const record = await readRecord(folder)
      if (record !== undefined) cgroupFolders.set(jobId, record.cgroup)
      const places = [folder.root, ...(cgroupFolders.get(jobId) ?? [])].filter((place) => existsSync(place))
      const pids = jobProcesses([], folder.temporary, true)
      return [...places, ...pids.map((pid) => `process ${pid}`)]
    },
    close: () => rm(dir, { recursive: true, force: true }),
  }
}

const programs: ContractPrograms = {
  exit: (code) => shell(`exit ${code}`),
  print: (lines, slowly) =>
    shell(
      `i=0; while [ $i -lt ${lines} ]; do i=$((i + 1)); echo "line $i"; ${slowly ? 'sleep 0.1' : ''}; done`.replace(
        '; ; done',
        '; done',
      ),
    ),
  hold: () => shell('exec sleep 1000'),
  stopWell: () => shell('trap "echo stopping; exit 0" TERM; echo up; sleep 1000 & wait'),
  ignoreStop: () => shell('trap "" TERM; echo up; sleep 1000; sleep 1000'),
  failToStart: () => ({ command: ['/no/such/program'] }),
  exceedMemory: () => ({
    command: [
      process.execPath,
      '-e',
      'const held = []; setInterval(() => held.push(Buffer.alloc(20e6, 1)), 5)',
    ],
    limits: { memoryBytes: 128 << 20, cpus: 1, pids: 64, timeoutSeconds: 60, graceSeconds: 1 },
  }),
  printEnv: () => ({ command: ['env'] }),
  printFile: (name) => shell(`echo "$(stat -c %a ${name}) $(cat ${name})"`),
  look: (target) => shell(`if [ -e '${target}' ]; then echo seen; else echo hidden; fi`),
  leaveChildren: () => shell('(sleep 1000 & sleep 1000 &) ; setsid sleep 1000 & echo up; exec sleep 1000'),
}

function shell(script: string): Partial<JobSpec> {
  return { command: ['/bin/sh', '-c', script] }
}

/** The program itself, `sleep`, below launcher and starter; the shell becomes it soon after the start. */
async function programPid(temporary: string): Promise<number> {
  return vi.waitFor(() => findSleep(temporary), { timeout: 60_000, interval: 10 })
}

async function findSleep(temporary: string): Promise<number> {
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const command = await readFile(`/proc/${name}/cmdline`, 'utf8').catch(() => '')
    const environment = await readFile(`/proc/${name}/environ`, 'utf8').catch(() => '')
    if (command.startsWith('sleep\0') && environment.includes(`TMPDIR=${temporary}`)) return Number(name)
  }
  throw new Error('The program of the job is not running.')
}
