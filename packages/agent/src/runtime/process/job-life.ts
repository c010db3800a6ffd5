import type { JobExit } from '../runtime.ts'
import { cgroupProcesses, removeCgroup } from './cgroup.ts'
import { exitReason } from './exit-reason.ts'
import {
  readExit,
  readIdentity,
  readRecord,
  readSession,
  removeJobFolder,
  writeGone,
  writeStop,
} from './job-folder.ts'
import type { JobFolder } from './job-folder.ts'
import { isAlive, jobProcesses, killAll, sendSignal } from './processes.ts'

const NOBODY_SAW = {
  code: null,
  cause: 'none',
  oomKills: 0,
  overMemory: false,
  stopReason: undefined,
} as const

/** How the job ended, or undefined while its launcher lives. What a dead launcher left running is killed first. */
export async function outcomeOf(folder: JobFolder): Promise<JobExit | undefined> {
  const facts = await readExit(folder)
  if (facts !== undefined) return exitReason(facts)
  const record = await readRecord(folder)
  if (record === undefined) return { reason: 'gone', exitCode: null, message: 'There is no such job.' }
  const identity = await readIdentity(folder)
  if (identity === undefined) {
    return { reason: 'start', exitCode: null, message: 'The agent ended while it started the job.' }
  }
  if (isAlive(identity)) return undefined
  const late = await readExit(folder)
  if (late !== undefined) return exitReason(late)
  await killJob(folder)
  await writeGone(folder)
  return exitReason((await readExit(folder)) ?? NOBODY_SAW)
}

/** The launcher does the rest, agent or not: SIGTERM to the program, the grace, SIGKILL to everything. */
export async function requestStop(folder: JobFolder, graceSeconds: number, reason: string): Promise<void> {
  await writeStop(folder, reason, graceSeconds)
  const identity = await readIdentity(folder)
  if (identity !== undefined && isAlive(identity)) sendSignal(identity.pid, 'SIGTERM')
}

/** Everything of the job dies, the launcher too. */
export async function killJob(folder: JobFolder): Promise<void> {
  const record = await readRecord(folder)
  const identity = await readIdentity(folder)
  const session = await readSession(folder)
  const sessions = [identity?.pid, session].filter((pid) => pid !== undefined)
  const cgroup = record?.cgroup ?? []
  const endedAlone = (record?.confined || cgroup.length > 0) && (await readExit(folder))?.cause === 'none'
  // Nothing of a confined job is left once its launcher ended by itself: the look through all processes can be spared.
  // Of one that is killed here, the first process may be dead before the others are.
  const isSpared = endedAlone && (identity === undefined || !isAlive(identity))
  await killAll(async () => {
    const inside = await cgroupProcesses(cgroup)
    return isSpared ? inside : [...inside, ...jobProcesses(sessions, folder.temporary, true)]
  })
}

/** Certain and repeatable: ends only when no process, cgroup or file of the job is left. */
export async function removeJob(folder: JobFolder): Promise<void> {
  const cgroup = (await readRecord(folder))?.cgroup ?? []
  await killJob(folder)
  for (let round = 0; !(await removeCgroup(cgroup)); round++) {
    if (round > 200) throw new Error(`The cgroup ${cgroup[0]} is still busy; remove the job again later.`)
    await killJob(folder)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  await removeJobFolder(folder)
}
