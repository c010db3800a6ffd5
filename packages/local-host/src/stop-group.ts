import { setTimeout as delay } from 'node:timers/promises'
import { isGroupAlive, signalGroup } from './process-identity.ts'

const POLL_MS = 25
const KILL_WAIT_MS = 5000

/** SIGTERM, a grace period, SIGKILL; returns when nothing of the group lives any more. */
export async function stopGroup(group: number, graceMs: number): Promise<void> {
  if (!signalGroup(group, 'SIGTERM')) return
  if (await isGoneWithin(group, graceMs)) return
  signalGroup(group, 'SIGKILL')
  if (await isGoneWithin(group, KILL_WAIT_MS)) return
  throw new Error(`The process group ${group} outlives SIGKILL`)
}

async function isGoneWithin(group: number, limitMs: number): Promise<boolean> {
  for (let waited = 0; isGroupAlive(group); waited += POLL_MS) {
    if (waited >= limitMs) return false
    await delay(POLL_MS)
  }
  return true
}
