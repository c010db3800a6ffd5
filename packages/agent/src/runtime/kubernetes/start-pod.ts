import { lookup } from 'node:dns/promises'
import { isIP } from 'node:net'
import path from 'node:path'
import { isSpecialAddress } from '../../ground/addresses.ts'
import { splitReference } from '../docker/pull-image.ts'
import { isJobId } from '../process/job-folder.ts'
import { RuntimeError, type JobSpec } from '../runtime.ts'
import { createJobFolder, writeRecord, type JobFolder, type JobRecord } from './job-folder.ts'
import { buildFilesSecret, buildJob, buildPullSecret } from './job-manifest.ts'
import type { KubeApi } from './kube-api.ts'
import { isKube } from './kube-error.ts'
import type { HostAlias } from './pod-spec.ts'

/** How jobs of one agent are made. */
export interface PodSettings {
  namespace: string
  /** Tells the Jobs of this agent from those of others in the namespace. */
  agentKey: string
  /** By digest; the image of every job whose spec names none. */
  image: string
  /** The address by which jobs reach the agent. */
  api?: { url: string } | undefined
  /** The program of that image. */
  command?: string[] | undefined
  /** Bounds what a job writes: past it the kubelet evicts the job. */
  workBytes?: number | undefined
  /** How long an ended job waits in the cluster for an agent that is away. */
  keepSeconds?: number | undefined
  registryAuth?: ((image: string) => Promise<{ username: string; password: string } | undefined>) | undefined
}

const JOB_PROGRAM = ['/usr/local/bin/node', '/opt/tenon/job.mjs']
const WORK_BYTES = 8 * 1024 ** 3
const KEEP_SECONDS = 24 * 3600
const ENV_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/

export interface CreateContext {
  api: KubeApi
  options: PodSettings
  now(): number
}

/** Makes a Job that is not there yet. The caller removes what is left when it throws. */
export async function createPod(
  context: CreateContext,
  folder: JobFolder,
  name: string,
  spec: JobSpec,
): Promise<JobRecord> {
  checkSpec(spec)
  const { api, options } = context
  const { agentKey, registryAuth, workBytes = WORK_BYTES, keepSeconds = KEEP_SECONDS } = options
  const image = spec.image ?? options.image
  const login = await registryAuth?.(image)
  const hostAliases = await aliasesOf(options.api?.url)
  const { jobId, fence, limits } = spec
  const { timeoutSeconds, graceSeconds } = limits
  const confinement = `a pod in ${options.namespace}${spec.serviceAccount ? ` as ${spec.serviceAccount}` : ''}`
  const record = { jobId, fence, confinement, startedAt: context.now(), timeoutSeconds, graceSeconds }
  await createJobFolder(folder, record)
  const parts = { agentKey, image, workBytes, keepSeconds, hasPullSecret: login !== undefined, hostAliases }
  const job = buildJob({ ...parts, spec, command: options.command ?? JOB_PROGRAM })
  try {
    // First the Secrets, so that no pod waits for them; by their names `remove` finds them, Job or not.
    const { labels } = job.metadata
    const pull = login && buildPullSecret(name, labels, splitReference(image).host, login)
    await Promise.all([
      api.createSecret(buildFilesSecret(name, labels, spec.files)),
      ...(pull === undefined ? [] : [api.createSecret(pull)]),
    ])
    const made = await api.createJob(job)
    await writeRecord(folder, { ...record, jobUid: made.metadata.uid })
  } catch (error) {
    if (!isKube(error, 'forbidden')) throw error
    throw new RuntimeError('start', `${error.message} The agent's role must let it make Jobs and Secrets.`, {
      cause: error,
    })
  }
  return record
}

/** As the agent itself finds it; none where pods alone can. A Service keeps its address for as long as it is there. */
async function aliasesOf(url: string | undefined): Promise<HostAlias[]> {
  const host = url === undefined ? '' : new URL(url).hostname
  if (host === '' || isIP(host.replaceAll(/^\[|\]$/g, '')) !== 0) return []
  const found = await lookup(host, { all: true }).catch(() => [])
  const far = found.filter(({ address }) => !isSpecialAddress(address))
  return far.map(({ address }) => ({ ip: address, hostnames: [host] }))
}

function checkSpec(spec: JobSpec): void {
  const names = Object.keys(spec.files)
  const badName = Object.keys(spec.env).find((name) => !ENV_NAME.test(name))
  const badFile = names.find((name) => !isInside(name))
  const texts = [...spec.command, ...Object.values(spec.env), ...names]
  const faults = [
    isJobId(spec.jobId) ? undefined : `The job id ${JSON.stringify(spec.jobId)} cannot name a Job.`,
    badName === undefined ? undefined : `${JSON.stringify(badName)} is no name of an environment variable.`,
    badFile === undefined
      ? undefined
      : `The file name ${JSON.stringify(badFile)} leads out of the job's folder.`,
    spec.mounts.length === 0 ? undefined : 'A pod cannot see folders of the agent.',
    texts.some((text) => text.includes('\0'))
      ? 'The command, environment or a file holds a NUL byte.'
      : undefined,
  ]
  const fault = faults.find((found) => found !== undefined)
  if (fault !== undefined) throw new RuntimeError('start', fault)
}

function isInside(name: string): boolean {
  const normal = path.posix.normalize(name)
  return normal !== '.' && !normal.startsWith('..') && !path.posix.isAbsolute(name) && !/[\n\r]/.test(name)
}
