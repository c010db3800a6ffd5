import type { EventOutbox } from '../journal/event-outbox.ts'
import type { JournalEntry } from '../journal/journal-entry.ts'
import type { JournalState } from '../journal/journal-state.ts'
import type { Journal } from '../journal/journal.ts'
import type { InstallStore } from '../store/install-store.ts'
import { setSecret } from '../store/sealing.ts'
import type { Released, Switch } from './owner-access.ts'

/** What the owner's hand changes, on a running agent or a stopped one; each change is told to the server's audit. */
export interface Switches {
  journal: Journal<JournalEntry>
  state: JournalState
  events: Pick<EventOutbox, 'raise'>
  clock: () => number
}

/** A switch that stands already is no new fact. */
export async function pauseAgent({ journal, state, events, clock }: Switches): Promise<Switch> {
  if (state.paused !== null) return { pausedSince: state.paused }
  const since = new Date(clock()).toISOString()
  await journal.append({ type: 'paused', since })
  await events.raise('agent.paused', null, { since })
  return { pausedSince: since }
}

export async function resumeAgent({ journal, state, events }: Switches): Promise<Switch> {
  const since = state.paused
  if (since === null) return { pausedSince: null }
  await journal.append({ type: 'paused', since: null })
  await events.raise('agent.resumed', null, { pausedSince: since })
  return { pausedSince: null }
}

/** The signed word that the server waits for before another agent may enrol in this one's place. */
export async function releaseAgent({ events, clock }: Pick<Switches, 'events' | 'clock'>): Promise<Released> {
  const releasedAt = new Date(clock()).toISOString()
  await events.raise('agent.released', null, {})
  return { releasedAt }
}

/** The server learns the name, as with every secret, and that it was set here. */
export async function setSecretHere(
  events: Switches['events'],
  store: InstallStore,
  name: string,
  value: string,
): Promise<{ version: number }> {
  const { version } = await setSecret(store, name, value)
  await events.raise('agent.secret_set', null, { name, version })
  return { version }
}
