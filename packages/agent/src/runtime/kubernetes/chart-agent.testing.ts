import { execFile } from 'node:child_process'
import { mkdir, symlink, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { loadImage, missingCluster, testTool } from './cluster.testing.ts'

const run = promisify(execFile)
export const CHART = path.resolve(import.meta.dirname, '../../../../../charts/agent')
const INSTALL_SECONDS = 180

/** By this address of the host, pods reach what a test serves on it. */
export const hostAddress = process.env['TENON_KUBERNETES_HOST_IP']

export interface ChartAgentOptions {
  /** An empty folder of the test, for what is made on the way. */
  dir: string
  /** Holds `agent.mjs` and `job.mjs`. */
  dist: string
  /** The release's own namespace; the agent's jobs get `NAMESPACE-jobs`. */
  namespace: string
  helm: 'helm3' | 'helm4'
  /** As pods reach it. */
  server: { url: string; joinToken: string }
  registry?: { url: string; keyFile: string; nodeAddress: string }
  /** Tools that the job image is to have, by the name that jobs look for. */
  tools?: Record<string, string>
  /** As in `values.yaml`. */
  jobs?: Record<string, unknown>
}

export interface ChartAgent {
  release: string
  namespace: string
  jobsNamespace: string
  /** By digest, known to every node. */
  jobImage: string
  helm(...args: string[]): Promise<string>
  /** What it said so far, for a test that failed. */
  log(): Promise<string>
  close(): Promise<void>
}

/** Why no agent can be installed into a cluster here, or undefined. */
export function missingChartAgent(): string | undefined {
  const missing = missingCluster()
  if (missing !== undefined) return missing
  if (!hostAddress) return 'TENON_KUBERNETES_HOST_IP does not say how pods reach this host'
  if (!process.env['TENON_KUBERNETES_LOAD']) return 'TENON_KUBERNETES_LOAD does not say how nodes get images'
  return testTool('helm3') && testTool('helm4') ? undefined : 'helm is not here'
}

/** The main way to run an install on Kubernetes: its agent a pod of the chart, its jobs pods with the chart's account. */
export async function installChartAgent(options: ChartAgentOptions): Promise<ChartAgent> {
  const { dir, dist, namespace, registry } = options
  const release = 'tenon'
  const kubectl = async (...args: string[]) => (await run(testTool('kubectl') ?? 'kubectl', args)).stdout
  const helm = async (...args: string[]) =>
    (await run(testTool(options.helm) ?? options.helm, [...args, '-n', namespace])).stdout
  await mkdir(dir, { recursive: true })
  const image = await loadImage(path.join(dir, 'agent'), ['--image', 'agent', '--dist', dist])
  const jobs = { image: await jobImage(options), namespace: `${namespace}-jobs`, ...options.jobs }
  const secret = async (name: string, ...from: string[]) =>
    kubectl('-n', namespace, 'create', 'secret', 'generic', name, ...from)
  await kubectl('create', 'namespace', namespace)
  const joinToken = path.join(dir, 'join-token')
  await writeFile(joinToken, options.server.joinToken, { mode: 0o600 })
  await secret('join', `--from-file=token=${joinToken}`)
  if (registry) await secret('registry', `--from-file=key=${registry.keyFile}`)
  const values = path.join(dir, 'values.json')
  const given = {
    serverUrl: options.server.url,
    joinToken: { secretName: 'join' },
    image: { reference: image },
    jobs,
    ...(registry
      ? {
          registry: { url: registry.url, keySecretName: 'registry' },
          env: { TENON_REGISTRY_NODE_ADDRESS: registry.nodeAddress },
        }
      : {}),
  }
  await writeFile(values, JSON.stringify(given))
  const log = () => kubectl('-n', namespace, 'logs', `deployment/${release}`, '--tail=200')
  const close = async () => {
    await helm('uninstall', release, '--wait', '--ignore-not-found')
    await kubectl('delete', 'namespace', namespace, jobs.namespace, '--ignore-not-found', '--wait=false')
  }
  try {
    await helm('install', release, CHART, '-f', values, '--wait', '--timeout', `${INSTALL_SECONDS}s`)
  } catch (error) {
    const said = await log().catch(() => 'no log')
    await close()
    throw new Error(`The chart's agent did not come up: ${said}`, { cause: error })
  }
  return { release, namespace, jobsNamespace: jobs.namespace, jobImage: jobs.image, helm, log, close }
}

async function jobImage({ dir, dist, tools }: ChartAgentOptions): Promise<string> {
  const folder = path.join(dir, 'job')
  if (tools === undefined) return loadImage(folder, ['--no-tools', '--dist', dist])
  const bin = path.join(dir, 'bin')
  await mkdir(bin)
  for (const [name, program] of Object.entries(tools)) await symlink(program, path.join(bin, name))
  return loadImage(folder, ['--dist', dist], { ...process.env, PATH: `${bin}:${process.env['PATH']}` })
}
