import { spawn } from 'node:child_process'
import { closeSync, openSync, readFileSync, renameSync, statSync } from 'node:fs'
import { credentials } from './account.ts'
import { waitFor } from './clock.ts'
import { type Cluster, serverArguments } from './cluster.ts'
import { ensureReachable } from './connect.ts'
import { PostgresError, startFailed } from './errors.ts'
import { readPidFile } from './pid-file.ts'
import { type ProcessIdentity, identify, isAlive, signal } from './process-table.ts'

/** A running PostgreSQL, started by us or left behind by a supervisor that was killed. */
export type Postmaster = {
  identity: ProcessIdentity
  port: number
  adopted: boolean
  exited: Promise<PostmasterExit>
}

export type PostmasterExit = { code: number | null; signal: NodeJS.Signals | null; logTail: string }

const readyWithinMs = 60_000
const fastStopMs = 30_000
const immediateStopMs = 10_000
const keepLogBytes = 16 * 1024 * 1024

/** Its output goes to a file and it has its own session: it outlives us rather than losing data with us. */
export async function spawnPostmaster(cluster: Cluster, port: number): Promise<Postmaster> {
  const { account, binaries, dataDir, siblings } = cluster
  const logStart = rotateLog(siblings.log)
  const output = openSync(siblings.log, 'a', 0o600)
  const child = spawn(binaries.postgres, serverArguments(cluster, port), {
    cwd: dataDir,
    env: { LC_ALL: 'C' },
    detached: true,
    stdio: ['ignore', output, output],
    ...credentials(account),
  })
  closeSync(output)
  const tail = (): string => logTail(siblings.log, logStart)
  const exited = new Promise<PostmasterExit>((settle) => {
    child.once('error', (error) => settle({ code: null, signal: null, logTail: error.message }))
    child.once('exit', (code, name) => settle({ code, signal: name, logTail: tail() }))
  })
  child.unref()
  const identity = child.pid === undefined ? undefined : identify(child.pid)
  if (identity === undefined) throw startFailed(port, (await exited).logTail)
  const postmaster: Postmaster = { identity, port, adopted: false, exited }
  await becomeReady(cluster, postmaster)
  return postmaster
}

/** A process that is not our child does not tell us its end, so it is looked at. */
export function adoptPostmaster(cluster: Cluster, identity: ProcessIdentity, port: number): Postmaster {
  const logStart = logSize(cluster.siblings.log)
  const exited = new Promise<PostmasterExit>((settle) => {
    const timer = setInterval(() => {
      if (isAlive(identity)) return
      clearInterval(timer)
      settle({ code: null, signal: null, logTail: logTail(cluster.siblings.log, logStart) })
    }, 200)
    timer.unref()
  })
  return { identity, port, adopted: true, exited }
}

/** Fast shutdown: open transactions are rolled back, all that was committed is on disk. */
export async function stopProcess(cluster: Cluster, identity: ProcessIdentity): Promise<void> {
  const gone = (): true | undefined => (isAlive(identity) ? undefined : true)
  signal(identity, 'SIGINT')
  if (await waitFor(cluster.clock, fastStopMs, gone)) return
  cluster.log.warn({ pid: identity.pid }, 'postgres does not stop; it is told to quit at once')
  signal(identity, 'SIGQUIT')
  if (await waitFor(cluster.clock, immediateStopMs, gone)) return
  throw new PostgresError(
    'postgres_stop_failed',
    `PostgreSQL (process ${identity.pid}) does not stop; see ${cluster.siblings.log}`,
  )
}

async function becomeReady(cluster: Cluster, postmaster: Postmaster): Promise<void> {
  let exit: PostmasterExit | undefined
  void postmaster.exited.then((value) => (exit = value))
  const outcome = await waitFor(cluster.clock, readyWithinMs, () => {
    if (exit !== undefined) return 'exited'
    const file = readPidFile(cluster.dataDir)
    return file?.pid === postmaster.identity.pid && file.status === 'ready' ? 'ready' : undefined
  })
  if (outcome === 'exited') throw startFailed(postmaster.port, exit?.logTail ?? '')
  try {
    if (outcome === undefined) throw startFailed(postmaster.port, `not ready after ${readyWithinMs / 1000} s`)
    await ensureReachable(cluster, postmaster.port)
  } catch (error) {
    await stopProcess(cluster, postmaster.identity)
    throw error
  }
}

function rotateLog(file: string): number {
  if (logSize(file) > keepLogBytes) renameSync(file, `${file}.1`)
  return logSize(file)
}

function logSize(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0
}

function logTail(file: string, from: number): string {
  try {
    return readFileSync(file).subarray(from).toString('utf8').trimEnd().split('\n').slice(-15).join('\n')
  } catch {
    return ''
  }
}
