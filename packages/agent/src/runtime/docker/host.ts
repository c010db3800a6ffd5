import type { RuntimeDescription } from '../runtime.ts'
import type { EngineAbout } from './engine.ts'

/** The user of jobs when the agent itself is root: nobody on the host. */
export const JOB_USER = { uid: 65532, gid: 65532 }

/** What the engine and the agent's own user let a job be started with. */
export interface Host {
  confinement: string
  user: { uid: number; gid: number }
  /** Who must own a job's files, when that is not the agent's user itself. */
  owner: { uid: number; gid: number } | undefined
  hasSelinux: boolean
  warnings: string[]
}

/** Pure. A rootless engine maps its root to the agent's own user; no other user could read the job's folder. */
export function chooseHost(about: EngineAbout, agent: { uid: number; gid: number }): Host {
  const isRoot = agent.uid === 0
  const user = about.isRootless ? { uid: 0, gid: 0 } : isRoot ? JOB_USER : agent
  const owner = isRoot && !about.isRootless ? JOB_USER : undefined
  const { hasSelinux } = about
  return { confinement: confinementOf(about, user), user, owner, hasSelinux, warnings: warningsOf(about) }
}

export function describeHost(host: Host): RuntimeDescription {
  return { confinement: host.confinement, warnings: host.warnings }
}

function confinementOf(about: EngineAbout, user: { uid: number }): string {
  const { product, version, apiVersion, isRootless, hasSeccomp, cgroupVersion, missingLimits } = about
  const limits = ['memory', 'swap', 'cpu', 'pids'].filter((limit) => !missingLimits.includes(limit))
  const walls = ['read-only root', 'no capabilities', 'no new privileges', ...(hasSeccomp ? ['seccomp'] : [])]
  const who = isRootless ? 'as the user of the rootless engine' : `as user ${user.uid}`
  return [
    `a container each by ${product} ${version} (API ${apiVersion})`,
    walls.join(', '),
    who,
    limits.length === 0 ? 'no limits' : `${limits.join(', ')} limited by cgroup v${cgroupVersion}`,
  ].join('; ')
}

function warningsOf(about: EngineAbout): string[] {
  return [
    'Jobs of container_image and docker_build keep the whole network of the engine, since they probe what they bring up.',
    ...(about.missingLimits.length === 0
      ? []
      : [
          `The engine does not limit ${about.missingLimits.join(', ')} of a job. Give it the cgroup controllers for that.`,
        ]),
    ...(about.hasSeccomp ? [] : ['The engine runs jobs without seccomp. Start it with its default profile.']),
    ...(about.remapsUsers
      ? [
          'The engine remaps users, so jobs cannot enter their folders. Switch its userns-remap off, or run it rootless.',
        ]
      : []),
    ...(about.hasSelinux
      ? ['SELinux labels are off for jobs, since they share folders of the agent; all other walls hold.']
      : []),
  ]
}
