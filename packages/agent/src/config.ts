import os from 'node:os'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { NETWORK_MODES, type Capacity, type JobKind, type NetworkMode } from '@tenon/core'
import { z } from 'zod'
import { byKind, type KindSetting } from './config-kinds.ts'
import { kubernetesConfig, kubernetesFields, type KubernetesConfig } from './config-kubernetes.ts'
import { AgentError } from './ground/errors.ts'
import type { ProxySettings } from './ground/proxy.ts'
import type { RegistrySettings } from './ground/registry-access.ts'

export interface AgentConfig {
  serverUrl: string
  /** Identity, journal, install store and jobs. */
  dir: string
  /** Needed once, to enrol; the file is read only then. */
  joinToken: { value: string } | { file: string } | undefined
  runtime: 'process' | 'docker' | 'kubernetes' | 'fake'
  /** Set when the runtime is `docker`. */
  docker?: DockerSettings | undefined
  /** Set when the runtime is `kubernetes`. */
  kubernetes?: KubernetesConfig | undefined
  /** The most that each kind of job may reach, whatever its manifest says. */
  networks?: Partial<Record<JobKind, NetworkMode>> | undefined
  /** Files of authorities that this machine trusts besides the usual ones; its jobs trust them too. */
  authorityFiles?: string[] | undefined
  /** Settings that still work and should be written otherwise, a sentence each. */
  outdated?: string[] | undefined
  slots: number
  /** What jobs may use together; without it only `slots` bounds them. */
  capacity?: Omit<Capacity, 'slots'> | undefined
  /** The install's own registry; absent on build and setup agents. */
  registry: RegistrySettings | undefined
  /** Socket of the local sandbox's supervisor. */
  hostSocket: string | undefined
  /** Folders lent to the agent's jobs: sandbox jobs may write them, build jobs only read them; others see none. */
  lentPaths: string[]
  /** Folders with tools (helm, kubectl, terraform) that jobs find besides the system's own; for `process`. */
  toolPaths: string[]
  /** How jobs that change components reach a cluster, where they have no service account of their own. */
  jobKubeconfig: string | undefined
  storeKeyFile: string
  /** Folder with the programs that come with the agent, `job.mjs` among them. */
  programs: string
  proxy: ProxySettings
  logLevel: 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'silent'
  /** What is shipped of one job's log. */
  maxLogBytes: number
  /** How far the clocks of server and agent may be apart when a manifest's times are judged. */
  clockSkewMs: number
  /** How old the agent's own key may become; without it, it changes on demand alone. */
  maxKeyAgeMs?: number | undefined
}

export interface DockerSettings {
  /** Where the engine may listen; the first that is there is used. */
  socketPaths: string[]
  /** The image that jobs run in, by digest or id. */
  image: string
  /** Bounds what a job writes; without it a job works on the disk. */
  workBytes: number | undefined
  /** What each replica of a service may have of memory. */
  serviceBytes?: number | undefined
}

const CPU_OVERCOMMIT = 4
const DAY_MS = 86_400_000

/** `none` is how `internal` was once spelled. */
const NETWORKS: KindSetting<NetworkMode | 'none'> = {
  variable: 'TENON_JOB_NETWORKS',
  form: NETWORK_MODES.join('|'),
  isValue: (text): text is NetworkMode | 'none' => ['none', ...NETWORK_MODES].includes(text),
}

const DOCKER_SOCKETS = ['/var/run/docker.sock', '/run/podman/podman.sock']

type Environment = Record<string, string | undefined>

const optionalText = z
  .string()
  .optional()
  .transform((value) => (value === '' ? undefined : value))

const settings = z.object({
  server: z.url({ protocol: /^https?$/, error: 'must be an http or https address' }),
  dir: z.string({ error: 'is needed: the folder of this agent' }).min(1),
  joinToken: optionalText,
  joinTokenFile: optionalText,
  runtime: z.enum(['process', 'docker', 'kubernetes', 'fake']).default('process'),
  jobImage: optionalText,
  workBytes: z.coerce.number().int().min(1_048_576).optional(),
  serviceBytes: z.coerce.number().int().min(8_388_608).optional(),
  ...kubernetesFields,
  slots: z.coerce.number().int().min(1).max(10_000).default(4),
  jobNetworks: optionalText,
  interactiveSlots: z.coerce.number().int().min(0).max(10_000).default(2),
  jobsMemoryBytes: z.coerce.number().int().min(67_108_864).optional(),
  jobsCpus: z.coerce.number().positive().optional(),
  registryUrl: z.url({ protocol: /^https?$/ }).optional(),
  registryKeyFile: optionalText,
  registryNodeAddress: optionalText,
  hostSocket: optionalText,
  lentPaths: optionalText,
  toolPaths: optionalText,
  jobKubeconfig: optionalText,
  storeKeyFile: optionalText,
  programs: optionalText,
  logLevel: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'silent']).default('info'),
  maxLogBytes: z.coerce.number().int().min(65_536).default(67_108_864),
  clockSkewSeconds: z.coerce.number().min(0).max(3600).default(300),
  rotateKeyDays: z.coerce.number().min(0).max(3650).default(90),
})

/** Flags, and the variable that each stands for. A join token has no flag: arguments are seen by everybody. */
const SOURCES: Record<keyof z.infer<typeof settings>, { flag?: string; variable: string }> = {
  server: { flag: 'server', variable: 'TENON_SERVER_URL' },
  dir: { flag: 'dir', variable: 'TENON_AGENT_DIR' },
  joinToken: { variable: 'TENON_JOIN_TOKEN' },
  joinTokenFile: { flag: 'join-token-file', variable: 'TENON_JOIN_TOKEN_FILE' },
  runtime: { flag: 'runtime', variable: 'TENON_RUNTIME' },
  jobImage: { variable: 'TENON_JOB_IMAGE' },
  workBytes: { variable: 'TENON_WORK_BYTES' },
  serviceBytes: { variable: 'TENON_SERVICE_MEMORY_BYTES' },
  kubeconfig: { variable: 'KUBECONFIG' },
  kubernetesNamespace: { variable: 'TENON_KUBERNETES_NAMESPACE' },
  kubernetesAgentKey: { variable: 'TENON_KUBERNETES_AGENT_KEY' },
  kubernetesScheduleSeconds: { variable: 'TENON_KUBERNETES_SCHEDULE_SECONDS' },
  kubernetesKeepSeconds: { variable: 'TENON_KUBERNETES_KEEP_SECONDS' },
  kubernetesServiceAccounts: { variable: 'TENON_KUBERNETES_SERVICE_ACCOUNTS' },
  jobApiUrl: { variable: 'TENON_JOB_API_URL' },
  jobApiListen: { variable: 'TENON_JOB_API_LISTEN' },
  jobNetworks: { variable: 'TENON_JOB_NETWORKS' },
  slots: { flag: 'slots', variable: 'TENON_SLOTS' },
  interactiveSlots: { variable: 'TENON_INTERACTIVE_SLOTS' },
  jobsMemoryBytes: { variable: 'TENON_JOBS_MEMORY_BYTES' },
  jobsCpus: { variable: 'TENON_JOBS_CPUS' },
  registryUrl: { variable: 'TENON_REGISTRY_URL' },
  registryKeyFile: { variable: 'TENON_REGISTRY_KEY_FILE' },
  hostSocket: { variable: 'TENON_HOST_SOCKET' },
  lentPaths: { variable: 'TENON_LENT_PATHS' },
  toolPaths: { variable: 'TENON_TOOL_PATHS' },
  jobKubeconfig: { variable: 'TENON_JOB_KUBECONFIG' },
  registryNodeAddress: { variable: 'TENON_REGISTRY_NODE_ADDRESS' },
  storeKeyFile: { variable: 'TENON_STORE_KEY_FILE' },
  programs: { flag: 'programs', variable: 'TENON_PROGRAMS_DIR' },
  logLevel: { flag: 'log-level', variable: 'TENON_LOG_LEVEL' },
  maxLogBytes: { variable: 'TENON_MAX_LOG_BYTES' },
  clockSkewSeconds: { variable: 'TENON_CLOCK_SKEW_SECONDS' },
  rotateKeyDays: { variable: 'TENON_ROTATE_KEY_DAYS' },
}

/** The only reader of arguments and environment. `programs` is the folder of the running program. */
export function readConfig(argv: string[], env: Environment, programs: string): AgentConfig {
  const given = collect(argv, env)
  const parsed = settings.safeParse(given)
  if (!parsed.success) throw badSettings(parsed.error)
  const value = parsed.data
  const dir = path.resolve(value.dir)
  if ((value.registryUrl === undefined) !== (value.registryKeyFile === undefined)) {
    throw bad('TENON_REGISTRY_URL and TENON_REGISTRY_KEY_FILE belong together')
  }
  return {
    serverUrl: value.server,
    dir,
    joinToken: joinTokenOf(value.joinToken, value.joinTokenFile),
    runtime: value.runtime,
    docker: value.runtime === 'docker' ? dockerSettings(value, env) : undefined,
    kubernetes:
      value.runtime === 'kubernetes' ? kubernetesConfig(value, jobImageOf(value), env, bad) : undefined,
    ...networkSettings(value.jobNetworks),
    authorityFiles: [env['NODE_EXTRA_CA_CERTS'], env['SSL_CERT_FILE']].filter(isGiven),
    slots: value.slots,
    capacity: givenCapacity(value),
    registry:
      value.registryUrl && value.registryKeyFile
        ? {
            url: value.registryUrl,
            keyFile: value.registryKeyFile,
            nodeAddress: value.registryNodeAddress,
          }
        : undefined,
    hostSocket: value.hostSocket,
    lentPaths: pathList(value.lentPaths),
    toolPaths: pathList(value.toolPaths),
    jobKubeconfig: value.jobKubeconfig && path.resolve(value.jobKubeconfig),
    storeKeyFile: value.storeKeyFile ?? path.join(dir, 'store.key'),
    programs: path.resolve(value.programs ?? programs),
    proxy: {
      httpsProxy: env['HTTPS_PROXY'] ?? env['https_proxy'],
      httpProxy: env['HTTP_PROXY'] ?? env['http_proxy'],
      noProxy: env['NO_PROXY'] ?? env['no_proxy'],
    },
    logLevel: value.logLevel,
    maxLogBytes: value.maxLogBytes,
    clockSkewMs: value.clockSkewSeconds * 1000,
    maxKeyAgeMs: value.rotateKeyDays > 0 ? value.rotateKeyDays * DAY_MS : undefined,
  }
}

function networkSettings(given: string | undefined): Pick<AgentConfig, 'networks' | 'outdated'> {
  const told = Object.entries(byKind(given ?? '', NETWORKS, bad))
  const networks = told.map(([kind, mode]) => [kind, mode === 'none' ? 'internal' : mode] as const)
  const isOutdated = told.some(([, mode]) => mode === 'none')
  const warning = 'TENON_JOB_NETWORKS says none, which is now called internal and read as that.'
  return { networks: Object.fromEntries(networks), outdated: isOutdated ? [warning] : [] }
}

function isGiven(text: string | undefined): text is string {
  return text !== undefined && text !== ''
}

function pathList(given: string | undefined): string[] {
  return given?.split(path.delimiter).map((each) => path.resolve(each)) ?? []
}

/** Jobs of the fake runtime use nothing. Limits are upper bounds: processors may be promised several times over. */
function givenCapacity(value: z.infer<typeof settings>): AgentConfig['capacity'] {
  const { runtime, interactiveSlots, jobsMemoryBytes, jobsCpus } = value
  const isFake = runtime === 'fake'
  const memory = isFake ? Infinity : machineMemory()
  const cpus = isFake ? Infinity : os.availableParallelism() * CPU_OVERCOMMIT
  return { interactiveSlots, memoryBytes: jobsMemoryBytes ?? memory, cpus: jobsCpus ?? cpus }
}

/** What this process may use at most, where its container is bounded. */
function machineMemory(): number {
  const bound = process.constrainedMemory()
  return bound > 0 ? Math.min(bound, os.totalmem()) : os.totalmem()
}

export function capacityOf({ slots, capacity }: AgentConfig): Capacity {
  return { slots, ...(capacity ?? { interactiveSlots: 0, memoryBytes: Infinity, cpus: Infinity }) }
}

/** A token in the environment is taken out at once, so that nothing started later inherits it. */
function collect(argv: string[], env: Environment): Record<string, string | undefined> {
  const names = Object.values(SOURCES).flatMap(({ flag }) => (flag === undefined ? [] : [flag]))
  const options = Object.fromEntries(names.map((flag) => [flag, { type: 'string' as const }]))
  let flags: Record<string, unknown>
  try {
    flags = parseArgs({ args: argv, options, strict: true, allowPositionals: false }).values
  } catch (error) {
    throw bad((error as Error).message, error)
  }
  const given = Object.entries(SOURCES).map(([key, { flag, variable }]) => {
    const fromFlag = flag === undefined ? undefined : (flags[flag] as string | undefined)
    return [key, fromFlag ?? env[variable]] as const
  })
  delete env['TENON_JOIN_TOKEN']
  return Object.fromEntries(given)
}

function dockerSettings(value: z.infer<typeof settings>, env: Environment): DockerSettings {
  const { workBytes, serviceBytes } = value
  return {
    socketPaths: dockerSockets(env),
    image: jobImageOf(value),
    workBytes,
    ...(serviceBytes === undefined ? {} : { serviceBytes }),
  }
}

function jobImageOf({ jobImage, runtime }: z.infer<typeof settings>): string {
  // Only an engine on the same machine knows images by their id.
  const pattern = runtime === 'docker' ? /(^|@)sha256:[0-9a-f]{64}$/ : /@sha256:[0-9a-f]{64}$/
  if (jobImage !== undefined && pattern.test(jobImage)) return jobImage
  const byId = runtime === 'docker' ? ' or id (sha256:…)' : ''
  throw bad(`TENON_JOB_IMAGE must name the image of jobs by digest (name@sha256:…)${byId}`)
}

/** Docker's usual place, Podman's, and that of a Podman of this user. */
export function dockerSockets(env: Environment): string[] {
  const told = env['TENON_DOCKER_SOCKET']
  if (told) return [path.resolve(told)]
  const userFolder = env['XDG_RUNTIME_DIR']
  return [...DOCKER_SOCKETS, ...(userFolder ? [path.join(userFolder, 'podman/podman.sock')] : [])]
}

function joinTokenOf(value: string | undefined, file: string | undefined): AgentConfig['joinToken'] {
  if (file !== undefined) return { file }
  return value === undefined ? undefined : { value }
}

function badSettings(error: z.ZodError): AgentError {
  const problems = error.issues.map((issue) => {
    const source = SOURCES[issue.path[0] as keyof typeof SOURCES]
    const where = source.flag === undefined ? source.variable : `--${source.flag} (${source.variable})`
    return `${where} ${issue.message}`
  })
  return bad(problems.join('; '))
}

function bad(message: string, cause?: unknown): AgentError {
  return new AgentError(
    'bad_config',
    `The configuration is not usable: ${message}.`,
    'Correct the flags or variables named here; `tenon agent --help` lists them.',
    { cause },
  )
}
