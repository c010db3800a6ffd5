import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** What of the machine's own configuration programs need to resolve names, check certificates and find libraries. */
const ETC = [
  'alternatives',
  'ca-certificates',
  'gai.conf',
  'group',
  'host.conf',
  'hosts',
  'ld.so.cache',
  'ld.so.conf',
  'ld.so.conf.d',
  'localtime',
  'mime.types',
  'nsswitch.conf',
  'passwd',
  'pki',
  'protocols',
  'resolv.conf',
  'services',
  'ssl',
]

const SYSTEM = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', ...ETC.map((name) => `/etc/${name}`)]

export interface Confinement {
  /** The only folder of its own that the job can write; mounted where it is on the host. */
  workFolder: string
  /** Read-only folders of programs outside `/usr`, such as the one of node. */
  tools: string[]
  mounts: { path: string; writable: boolean }[]
  /** Nothing but a loopback of its own. */
  hasOwnNetwork: boolean
  /** Whether the job may make a user namespace in which it is root. */
  mayNestUsers?: boolean | undefined
  env: Record<string, string>
}

/**
 * Bubblewrap's arguments. The starter is pid 1 of the job's pid namespace: it can be sent SIGTERM from outside, and
 * its end takes every process of the job with it. No `--die-with-parent`: the job outlives the agent.
 */
export function bubblewrapArguments(confinement: Confinement): string[] {
  const { workFolder, tools, mounts, hasOwnNetwork, env } = confinement
  const namespaces = ['--unshare-user-try', '--unshare-pid', '--unshare-ipc', '--unshare-uts']
  // Where the agent is root, the kernel lets a namespace's root become one of a nested namespace only with this one.
  const nesting = confinement.mayNestUsers === true ? ['--cap-add', 'CAP_SETFCAP'] : []
  const rights = ['--unshare-cgroup-try', '--cap-drop', 'ALL', '--as-pid-1', '--hostname', 'job']
  const own = ['--proc', '/proc', '--dev', '/dev', '--tmpfs', '/tmp', '--tmpfs', '/run']
  const work = ['--bind', workFolder, workFolder, '--chdir', workFolder, '--clearenv']
  return [
    ...namespaces,
    ...(hasOwnNetwork ? ['--unshare-net'] : []),
    ...rights,
    ...nesting,
    ...SYSTEM.flatMap((place) => ['--ro-bind-try', place, place]),
    ...own,
    ...tools.flatMap((folder) => ['--ro-bind', folder, folder]),
    ...mounts.flatMap((mount) => [mount.writable ? '--bind' : '--ro-bind', mount.path, mount.path]),
    ...work,
    ...Object.entries(env).flatMap(([name, value]) => ['--setenv', name, value]),
  ]
}

/** The program's path when it is present and really confines here; a container often forbids it. */
export async function detectBubblewrap(
  programs = ['/usr/bin/bwrap', '/usr/local/bin/bwrap', '/bin/bwrap'],
): Promise<{ program: string } | { missing: 'absent' | 'forbidden'; detail: string }> {
  let detail = ''
  for (const program of programs) {
    const confinement = { workFolder: '/tmp', tools: [], mounts: [], hasOwnNetwork: true, env: {} }
    try {
      await run(program, [...bubblewrapArguments(confinement), '--', '/bin/sh', '-c', 'exit 0'])
      return { program }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') detail = (error as Error).message.trim()
    }
  }
  return { missing: detail === '' ? 'absent' : 'forbidden', detail }
}

/** The folders of programs that the system's own do not already show. */
export function toolFolders(programs: string[]): string[] {
  const folders = programs.map((program) => path.dirname(program))
  return [...new Set(folders)].filter((folder) => !SYSTEM.some((known) => isInside(folder, known)))
}

function isInside(folder: string, parent: string): boolean {
  return folder === parent || folder.startsWith(`${parent}/`)
}
