import { existsSync } from 'node:fs'
import path from 'node:path'
import { JOB_SURROUNDINGS } from '@tenon/protocol'
import { pino } from 'pino'
import { describeRuntimeContract } from '../contract.testing.ts'
import type { ContractHarness, ContractPrograms } from '../contract.testing.ts'
import type { JobSpec } from '../runtime.ts'
import { leftOf, missingCluster, openCluster } from './cluster.testing.ts'
import { jobFolder } from './job-folder.ts'
import { jobName } from './job-manifest.ts'
import { createKubernetesRuntime } from './kubernetes-runtime.ts'

const missing = missingCluster()
const title = missing === undefined ? 'kubernetes' : `kubernetes (${missing})`
describeRuntimeContract(title, makeHarness, missing === undefined, 180_000)

async function makeHarness(): Promise<ContractHarness> {
  const cluster = await openCluster('contract')
  const { kubeconfig, namespace, image, kubectl } = cluster
  const dir = path.join(cluster.dir, 'jobs')
  const agentKey = 'contract-test-agent'
  const log = pino({ level: process.env['TENON_TEST_LOG'] ?? 'silent' })
  const inside = (jobId: string, ...command: string[]) =>
    kubectl('-n', namespace, 'exec', `job/${jobName(agentKey, jobId)}`, '-c', 'job', '--', ...command)
  return {
    open: () => createKubernetesRuntime({ kubeconfig, namespace, dir, log, agentKey, image }),
    programs,
    isConfined: true,
    seesHostFolders: false,
    async kill(jobId) {
      // The end of the container often takes the command with it.
      await inside(jobId, '/bin/sh', '-c', 'kill -KILL -1').catch(() => undefined)
    },
    async traces(jobId) {
      const name = jobName(agentKey, jobId)
      return [
        ...(await leftOf(cluster, name)),
        ...[jobFolder(dir, jobId).root].filter((place) => existsSync(place)),
      ]
    },
    close: () => cluster.close(),
  }
}

const programs: ContractPrograms = {
  exit: (code) => shell(`exit ${code}`),
  print: (lines, slowly) =>
    shell(
      `i=0; while [ $i -lt ${lines} ]; do i=$((i + 1)); echo "line $i"${slowly ? '; sleep 0.2' : ''}; done`,
    ),
  hold: () => shell('exec sleep 1000'),
  stopWell: () => shell('trap "echo stopping; exit 0" TERM; echo up; sleep 1000 & wait'),
  ignoreStop: () => shell('trap "" TERM; echo up; sleep 1000; sleep 1000'),
  failToStart: () => ({ command: ['/no/such/program'] }),
  exceedMemory: () => ({
    command: ['tail', '/dev/zero'],
    limits: { memoryBytes: 64 << 20, cpus: 1, pids: 64, timeoutSeconds: 60, graceSeconds: 1 },
  }),
  // What the kubelet tells every pod stays: by it a job finds its cluster.
  printEnv: () => ({ command: ['env', ...JOB_SURROUNDINGS.flatMap((name) => ['-u', name]), 'env'] }),
  printFile: (name) => shell(`echo "$(stat -c %a ${name}) $(cat ${name})"`),
  look: (target) => shell(`if [ -e '${target}' ]; then echo seen; else echo hidden; fi`),
  leaveChildren: () => shell('(sleep 1000 & sleep 1000 &) ; setsid sleep 1000 & echo up; exec sleep 1000'),
}

function shell(script: string): Partial<JobSpec> {
  return { command: ['/bin/sh', '-c', script] }
}
