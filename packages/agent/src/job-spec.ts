import path from 'node:path'
import type { JobKind, JobManifest } from '@tenon/core'
import type { JobSpec } from './runtime/runtime.ts'

const SYSTEM_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

export interface JobSpecSettings {
  node: string
  /** Folder with `job.mjs`, the program that a job runs. */
  programs: string
  apiSocket: string
  hostSocket: string | undefined
  lentPaths: string[]
  toolPaths: string[]
  jobKubeconfig: string | undefined
  /** The agent's own folder, in which it keeps what a sync notes for the next one. */
  agentDir: string
  /** An engine runs its image's own program, which the image brings with it. */
  isContainer: boolean
  /** The fake runtime takes its behaviour from the component's configuration. */
  isFake: boolean
}

/** Pure: the folder that the syncs of one component share, one after the other; other jobs have none. */
export function cacheDirOf(agentDir: string, manifest: JobManifest): string | undefined {
  if (manifest.kind !== 'sync') return undefined
  return path.join(agentDir, 'sync', manifest.operations[0]?.component ?? 'none')
}

/** Pure: everything a job gets. A job starts in its own folder, so its token's file is named from there. */
export function buildJobSpec(manifest: JobManifest, token: string, settings: JobSpecSettings): JobSpec {
  const { programs, apiSocket, hostSocket } = settings
  const cacheDir = cacheDirOf(settings.agentDir, manifest)
  const kubeconfig = kubeconfigOf(manifest, settings.jobKubeconfig)
  return {
    jobId: manifest.jobId,
    fence: manifest.fence,
    command: settings.isContainer ? [] : [settings.node, path.join(programs, 'job.mjs')],
    env: {
      TENON_JOB_URL: `unix:${apiSocket}`,
      TENON_JOB_TOKEN_FILE: 'token',
      PATH: [...settings.toolPaths, SYSTEM_PATH].join(path.delimiter),
      ...(isLentTo(manifest, settings) ? { TENON_LENT_PATHS: settings.lentPaths.join(path.delimiter) } : {}),
      ...(settings.isFake ? fakeBehaviour(manifest) : {}),
    },
    files: { token },
    // A socket can be connected to through a read-only mount; a job must not be able to put another in its place.
    mounts: [
      { path: path.dirname(apiSocket), writable: false },
      ...(settings.isContainer ? [] : [{ path: programs, writable: false }]),
      ...(hostSocket === undefined ? [] : [{ path: path.dirname(hostSocket), writable: false }]),
      ...settings.toolPaths.map((tools) => ({ path: tools, writable: false })),
      ...(kubeconfig === undefined ? [] : [{ path: kubeconfig, writable: false }]),
      ...(cacheDir === undefined ? [] : [{ path: cacheDir, writable: true }]),
      ...(manifest.kind === 'sandbox' || isLentTo(manifest, settings)
        ? settings.lentPaths.map((lent) => ({ path: lent, writable: manifest.kind === 'sandbox' }))
        : []),
    ],
    network: 'egress',
    ...(manifest.kind === 'build' ? { mayNestUsers: true } : {}),
    limits: { ...manifest.limits },
  }
}

/** A build reads what the vendor lent to its build agent: credentials of registries, where providers come from. */
const CHANGES_COMPONENTS: ReadonlySet<JobKind> = new Set<JobKind>(['plan', 'deploy', 'destroy', 'action'])

/** Access to a cluster goes to the jobs that plan and change components, and to no others. */
export function kubeconfigOf(manifest: JobManifest, kubeconfig: string | undefined): string | undefined {
  return CHANGES_COMPONENTS.has(manifest.kind) ? kubeconfig : undefined
}

function isLentTo(manifest: JobManifest, settings: JobSpecSettings): boolean {
  return manifest.kind === 'build' && settings.lentPaths.length > 0
}

/** `fake.<job kind>` of the component, so that one component can sync well and deploy badly. */
function fakeBehaviour(manifest: JobManifest): Record<string, string> {
  const component = manifest.operations[0]?.config['component'] as
    | { fake?: Record<string, unknown> }
    | undefined
  return { TENON_FAKE: JSON.stringify(component?.fake?.[manifest.kind] ?? {}) }
}
