import { sizeWords } from '@tenon/core'
import path from 'node:path'
import { once } from 'node:events'
import { AgentError } from '../../ground/errors.ts'
import { exportStore } from '../../store/export-store.ts'
import { readStore } from '../../store/read-store.ts'
import { loadStoreKey } from '../../store/store-key.ts'
import { DIR, folderOf, misuse, STORE_KEY, type Command } from './command.ts'
import { writePrivateFile } from './private-file.ts'

export const exportCommand: Command = {
  words: 'export',
  summary: 'write the whole install store, encrypted to the customer, while the agent runs or not',
  options: {
    ...DIR,
    to: {
      type: 'string',
      multiple: true,
      value: 'RECIPIENT',
      help: 'who can read it: age1…; may be repeated',
    },
    out: { type: 'string', value: 'FILE', help: 'a new file, readable by you alone; stdout unless told' },
    ...STORE_KEY,
  },
  examples: [
    'tenon agent export --dir ./agent --to age1… > store.age',
    'tenon agent export --dir ./agent --to age1… --to age1… --out store.age',
  ],
  async run(input) {
    const { io } = input
    const folder = folderOf(exportCommand, input)
    const recipients = input.texts('to')
    const out = input.text('out')
    if (recipients.length === 0) throw misuse(exportCommand, '--to is needed: an age recipient (age1…)')
    if (out === undefined && io.stdout.isTTY) throw toTerminal()
    const key = await loadStoreKey({ file: folder.storeKeyFile })
    const bytes = await readStore({
      dir: path.join(folder.dir, 'store'),
      key,
      read: (store) => exportStore(store, recipients, () => new Date(io.clock())),
    })
    if (out !== undefined) await writePrivateFile(out, bytes)
    else if (!io.stdout.write(bytes)) await once(io.stdout, 'drain')
    io.stderr.write(`${sizeWords(bytes.byteLength)} exported for ${recipients.length} recipient(s)\n`)
  },
}

function toTerminal(): AgentError {
  return new AgentError(
    'output_refused',
    'An export is not written to a terminal.',
    'Redirect it (> store.age) or name a file with --out.',
  )
}
