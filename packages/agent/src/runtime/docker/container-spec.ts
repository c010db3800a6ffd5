import type { JobSpec } from '../runtime.ts'
import type { JobFolder } from './job-folder.ts'
import { WRAPPER_PIDS } from '../wrapper.ts'
import { INSIDE, WRAPPER } from './wrapper.ts'

/** By these, an agent finds everything of its own on an engine that others use too. */
export const LABELS = { agent: 'tenon.agent', job: 'tenon.job', fence: 'tenon.fence' } as const

const TMP_BYTES = 64 * 1024 * 1024
/** What engines and shells set by themselves; a job gets exactly the environment of its spec. */
const ENGINE_VARIABLES = [
  'HOSTNAME',
  'TERM',
  'SHLVL',
  'container',
  'HTTP_PROXY',
  'HTTPS_PROXY',
  'FTP_PROXY',
  'NO_PROXY',
  'ALL_PROXY',
]
const ENV_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/

export interface ContainerParts {
  spec: JobSpec
  image: { id: string; command: string[]; envNames: string[] }
  folder: JobFolder
  agentKey: string
  user: { uid: number; gid: number }
  /** Absent: the job works in a folder on the disk, as large as that is. */
  workBytes: number | undefined
  hasSelinux: boolean
}

/** Pure: the body of `POST /containers/create`. Nothing in it is secret: `inspect` shows it to every user of the engine. */
export function buildContainer(parts: ContainerParts): CreateContainer {
  const { spec, image, folder, user } = parts
  const { timeoutSeconds, graceSeconds } = spec.limits
  const command = spec.command.length > 0 ? spec.command : image.command
  const times = [timeoutSeconds, timeoutSeconds + graceSeconds, graceSeconds].map(String)
  const env = { ...spec.env, ...spec.ownNetwork?.env, HOME: folder.work, TMPDIR: folder.temporary }
  return {
    Image: image.id,
    Hostname: 'job',
    User: `${user.uid}:${user.gid}`,
    WorkingDir: '/',
    Env: Object.entries(env).map(([name, value]) => `${name}=${value}`),
    Entrypoint: ['/bin/sh', '-c', WRAPPER, 'tenon-job'],
    Cmd: [...times, variablesToForget(image.envNames, env).join(' '), ...command],
    Labels: {
      [LABELS.agent]: parts.agentKey,
      [LABELS.job]: spec.jobId,
      [LABELS.fence]: String(spec.fence),
    },
    StopSignal: 'SIGTERM',
    StopTimeout: graceSeconds,
    Healthcheck: { Test: ['NONE'] },
    Tty: false,
    OpenStdin: false,
    AttachStdin: false,
    AttachStdout: false,
    AttachStderr: false,
    HostConfig: hostConfig(parts),
  }
}

function hostConfig(parts: ContainerParts): HostConfig {
  const { spec, workBytes, hasSelinux } = parts
  const { memoryBytes, cpus, pids } = spec.limits
  return {
    ReadonlyRootfs: true,
    CapDrop: ['ALL'],
    Privileged: false,
    SecurityOpt: ['no-new-privileges', ...(hasSelinux ? ['label=disable'] : [])],
    Memory: memoryBytes,
    // The same as the memory limit: no swap.
    MemorySwap: memoryBytes,
    NanoCpus: Math.round(cpus * 1e9),
    PidsLimit: pids + WRAPPER_PIDS,
    // Not even an internal network: the machine itself is at the gateway of each.
    NetworkMode: spec.ownNetwork === undefined ? 'default' : 'none',
    IpcMode: 'private',
    Init: false,
    RestartPolicy: { Name: 'no' },
    AutoRemove: false,
    // The wrapper writes the log; the engine's own copy would only fill the disk.
    LogConfig: { Type: 'none', Config: {} },
    Tmpfs: {
      '/tmp': `rw,nosuid,nodev,noexec,size=${TMP_BYTES},mode=1777`,
      ...(workBytes === undefined
        ? {}
        : { [parts.folder.work]: `rw,exec,nosuid,nodev,size=${workBytes},mode=1777` }),
    },
    Mounts: mounts(parts),
  }
}

/** Single files, not their folder: a job can fill its log but never put a link to a file of the host in its place. */
function mounts({ spec, folder, workBytes }: ContainerParts): Mount[] {
  const work =
    workBytes === undefined ? bind(folder.work, folder.work, true) : bind(folder.files, INSIDE.files, false)
  return [
    bind(folder.log, INSIDE.log, true),
    bind(folder.status, INSIDE.status, true),
    bind(folder.control, INSIDE.control, false),
    work,
    ...spec.mounts.map(({ path, writable }) => bind(path, path, writable)),
  ]
}

function bind(source: string, target: string, writable: boolean): Mount {
  return { Type: 'bind', Source: source, Target: target, ReadOnly: !writable }
}

function variablesToForget(imageNames: string[], env: Record<string, string>): string[] {
  const proxies = ENGINE_VARIABLES.filter((name) => name.endsWith('PROXY')).map((name) => name.toLowerCase())
  const names = new Set([...imageNames, ...ENGINE_VARIABLES, ...proxies])
  return [...names].filter((name) => ENV_NAME.test(name) && !Object.hasOwn(env, name))
}

interface Mount {
  Type: 'bind'
  Source: string
  Target: string
  ReadOnly: boolean
}

interface HostConfig {
  ReadonlyRootfs: boolean
  CapDrop: string[]
  Privileged: boolean
  SecurityOpt: string[]
  Memory: number
  MemorySwap: number
  NanoCpus: number
  PidsLimit: number
  NetworkMode: string
  IpcMode: string
  Init: boolean
  RestartPolicy: { Name: string }
  AutoRemove: boolean
  LogConfig: { Type: string; Config: Record<string, string> }
  Tmpfs: Record<string, string>
  Mounts: Mount[]
}

export interface CreateContainer {
  Image: string
  Hostname: string
  User: string
  WorkingDir: string
  Env: string[]
  Entrypoint: string[]
  Cmd: string[]
  Labels: Record<string, string>
  StopSignal: string
  StopTimeout: number
  Healthcheck: { Test: string[] }
  Tty: boolean
  OpenStdin: boolean
  AttachStdin: boolean
  AttachStdout: boolean
  AttachStderr: boolean
  HostConfig: HostConfig
}
