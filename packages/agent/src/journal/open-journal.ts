import path from 'node:path'
import type { Logger } from 'pino'
import type { AgentConfig } from '../config.ts'
import type { JournalEntry } from './journal-entry.ts'
import { applyEntry, emptyState, forgetExpired, snapshotEntries, type JournalState } from './journal-state.ts'
import { Journal } from './journal.ts'

/** What the agent knew before it ended, and the file in which it goes on writing that. */
export async function openJournal(
  { dir, clockSkewMs }: Pick<AgentConfig, 'dir' | 'clockSkewMs'>,
  clock: () => number,
  log: Logger,
): Promise<{ journal: Journal<JournalEntry>; state: JournalState }> {
  const state = emptyState()
  const journal = await Journal.open<JournalEntry>({
    file: path.join(dir, 'journal.jsonl'),
    apply: (entry) => applyEntry(state, entry),
    snapshot: () => {
      forgetExpired(state, clock() - 2 * clockSkewMs)
      return snapshotEntries(state)
    },
  })
  for (const problem of journal.problems)
    log.error(problem, 'a line of the journal is broken and was left out; a copy is kept beside it')
  return { journal, state }
}
