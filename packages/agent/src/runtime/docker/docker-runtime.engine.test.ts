import { existsSync } from 'node:fs'
import path from 'node:path'
import { pino } from 'pino'
import { describeRuntimeContract } from '../contract.testing.ts'
import type { ContractHarness, ContractPrograms } from '../contract.testing.ts'
import { jobProcesses } from '../process/processes.ts'
import type { JobSpec } from '../runtime.ts'
import { createDockerRuntime } from './docker-runtime.ts'
import { createEngine } from './engine.ts'
import { buildTestImage, missingFor, startEngine } from './engines.testing.ts'
import type { EngineName } from './engines.testing.ts'
import { jobFolder } from './job-folder.ts'

for (const name of ['docker', 'podman'] as const) {
  const missing = await missingFor(name)
  const title = missing === undefined ? `docker (${name})` : `docker (${name}: ${missing})`
  describeRuntimeContract(title, () => makeHarness(name), missing === undefined)
}

async function makeHarness(name: EngineName): Promise<ContractHarness> {
  const started = await startEngine(name)
  const image = await started.load(await buildTestImage(started.dir))
  const dir = path.join(started.dir, 'jobs')
  const socketPaths = [started.socketPath]
  const agentKey = 'contract-test-agent'
  const engine = createEngine(socketPaths)
  return {
    open: () =>
      createDockerRuntime({
        socketPaths,
        dir,
        log: pino({ level: 'silent' }),
        agentKey,
        image,
      }),
    programs,
    isConfined: true,
    kill: (jobId) => engine.kill(`tenon-${agentKey.slice(0, 16)}-${jobId}`, 'SIGKILL'),
    async traces(jobId) {
      const folder = jobFolder(dir, jobId)
      const containers = await engine.list(`tenon.job=${jobId}`)
      const pids = jobProcesses([], folder.temporary, true)
      return [
        ...containers.map(({ id }) => `container ${id}`),
        ...[folder.root].filter((place) => existsSync(place)),
        ...pids.map((pid) => `process ${pid}`),
      ]
    },
    close: () => started.close(),
  }
}

const programs: ContractPrograms = {
  exit: (code) => shell(`exit ${code}`),
  print: (lines, slowly) =>
    shell(
      `i=0; while [ $i -lt ${lines} ]; do i=$((i + 1)); echo "line $i"${slowly ? '; sleep 0.1' : ''}; done`,
    ),
  hold: () => shell('exec sleep 1000'),
  stopWell: () => shell('trap "echo stopping; exit 0" TERM; echo up; sleep 1000 & wait'),
  ignoreStop: () => shell('trap "" TERM; echo up; sleep 1000; sleep 1000'),
  failToStart: () => ({ command: ['/no/such/program'] }),
  exceedMemory: () => ({
    command: ['tail', '/dev/zero'],
    limits: { memoryBytes: 64 << 20, cpus: 1, pids: 64, timeoutSeconds: 60, graceSeconds: 1 },
  }),
  printEnv: () => ({ command: ['env'] }),
  printFile: (name) => shell(`echo "$(stat -c %a ${name}) $(cat ${name})"`),
  look: (target) => shell(`if [ -e '${target}' ]; then echo seen; else echo hidden; fi`),
  leaveChildren: () => shell('(sleep 1000 & sleep 1000 &) ; setsid sleep 1000 & echo up; exec sleep 1000'),
}

function shell(script: string): Partial<JobSpec> {
  return { command: ['/bin/sh', '-c', script] }
}
