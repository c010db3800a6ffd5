import path from 'node:path'
import type { JobManifest } from '@tenon/core'
import type { JobSpec } from './runtime/runtime.ts'

/** In the job's folder, beside its token. */
const CA_FILE = 'job-api.pem'
const SYSTEM_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

export interface JobSpecSettings {
  node: string
  /** Folder with `job.mjs`, the program that a job runs. */
  programs: string
  apiSocket: string
  /** Where jobs see no socket of the agent: its address and certificate. */
  remoteApi?: { url: string; ca: string } | undefined
  /** On `kubernetes`: the service account of each kind of job; a kind without one has no access to the cloud. */
  serviceAccounts?: Readonly<Record<string, string>> | undefined
  hostSocket: string | undefined
  lentPaths: string[]
  /** An engine runs its image's own program, which the image brings with it. */
  isContainer: boolean
  /** The fake runtime takes its behaviour from the component's configuration. */
  isFake: boolean
}

/** Pure: everything a job gets. A job starts in its own folder, so its token's file is named from there. */
export function buildJobSpec(manifest: JobManifest, token: string, settings: JobSpecSettings): JobSpec {
  const { remoteApi } = settings
  const serviceAccount = settings.serviceAccounts?.[manifest.kind]
  return {
    jobId: manifest.jobId,
    fence: manifest.fence,
    command: settings.isContainer ? [] : [settings.node, path.join(settings.programs, 'job.mjs')],
    env: {
      TENON_JOB_URL: remoteApi?.url ?? `unix:${settings.apiSocket}`,
      TENON_JOB_TOKEN_FILE: 'token',
      ...(remoteApi ? { TENON_JOB_CA_FILE: CA_FILE } : {}),
      PATH: SYSTEM_PATH,
      ...(settings.isFake ? fakeBehaviour(manifest) : {}),
    },
    files: { token, ...(remoteApi ? { [CA_FILE]: remoteApi.ca } : {}) },
    ...(serviceAccount === undefined ? {} : { serviceAccount }),
    mounts: remoteApi ? [] : mountsOf(manifest, settings),
    network: 'egress',
    limits: { ...manifest.limits },
  }
}

/** A socket can be connected to through a read-only mount; a job must not be able to put another in its place. */
function mountsOf(manifest: JobManifest, settings: JobSpecSettings): JobSpec['mounts'] {
  const { programs, apiSocket, hostSocket, lentPaths } = settings
  return [
    { path: path.dirname(apiSocket), writable: false },
    ...(settings.isContainer ? [] : [{ path: programs, writable: false }]),
    ...(hostSocket === undefined ? [] : [{ path: path.dirname(hostSocket), writable: false }]),
    ...(manifest.kind === 'sandbox' ? lentPaths.map((lent) => ({ path: lent, writable: true })) : []),
  ]
}

/** `fake.<job kind>` of the component, so that one component can sync well and deploy badly. */
function fakeBehaviour(manifest: JobManifest): Record<string, string> {
  const component = manifest.operations[0]?.config['component'] as
    | { fake?: Record<string, unknown> }
    | undefined
  return { TENON_FAKE: JSON.stringify(component?.fake?.[manifest.kind] ?? {}) }
}
