import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { dirname, isAbsolute, join } from 'node:path'
import { LAUNCH_SCRIPT } from './process-identity.ts'
import { closeLog, markStart, openLog } from './unit-log.ts'
import { versionPaths } from './unit-files.ts'
import type { Desired, UnitPaths } from './unit-files.ts'

export interface LaunchPlan {
  command: string[]
  env: Record<string, string>
  cwd: string
}

/** What whoever runs this machine says of the jobs and the network of its installs. */
const OWNERS_SETTINGS = [
  'TENON_JOB_NETWORKS',
  'HTTPS_PROXY',
  'HTTP_PROXY',
  'NO_PROXY',
  'NODE_EXTRA_CA_CERTS',
  'SSL_CERT_FILE',
]

/** Pure: those that are set, for the agents of installs; nothing else of them is inherited. */
export function ownersSettings(env: Record<string, string | undefined>): Record<string, string> {
  return Object.fromEntries(
    OWNERS_SETTINGS.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]])),
  )
}

/** The environment is made from nothing: what the local-host itself was started with stays its own, but `settings`. */
export function planLaunch(
  unit: UnitAddress,
  paths: UnitPaths,
  desired: Desired,
  settings: Record<string, string> = {},
): LaunchPlan {
  const { files, bundle } = versionPaths(paths, desired.version)
  const home = desired.spec.hasBundle ? bundle : paths.data
  const fill = (text: string) =>
    text.replaceAll('{files}', files).replaceAll('{data}', paths.data).replaceAll('{bundle}', bundle)
  const cwd = desired.spec.cwd === undefined ? home : fill(desired.spec.cwd)
  const env = Object.entries(desired.spec.env).map(([name, value]) => [name, fill(value)] as const)
  return {
    command: desired.spec.command.map(fill),
    cwd: isAbsolute(cwd) ? cwd : join(home, cwd),
    env: {
      PATH: `${dirname(process.execPath)}:/usr/local/bin:/usr/bin:/bin`,
      HOME: paths.data,
      LANG: 'C.UTF-8',
      TENON_INSTALL_ID: unit.installId,
      TENON_UNIT: unit.name,
      TENON_UNIT_VERSION: desired.version,
      TENON_FILES: files,
      TENON_DATA: paths.data,
      ...settings,
      ...Object.fromEntries(env),
    },
  }
}

/** In a session of its own and with its own log, so that it outlives the local-host. */
export function launch(plan: LaunchPlan, paths: UnitPaths, version: string, now: number): ChildProcess {
  const log = openLog(paths.log)
  try {
    markStart(log, `started at ${new Date(now).toISOString()}, version ${version}`)
    const child = spawn(
      '/bin/sh',
      ['-c', LAUNCH_SCRIPT, 'tenon-launch', paths.process, version, ...plan.command],
      {
        cwd: plan.cwd,
        env: plan.env,
        detached: true,
        stdio: ['ignore', log, log],
      },
    )
    child.unref()
    return child
  } finally {
    closeLog(log)
  }
}

export interface UnitAddress {
  installId: string
  name: string
}
