import { mkdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { readIdentity } from '../../enrolment/identity.ts'
import { AgentError } from '../../ground/errors.ts'
import { lockFolder } from '../../ground/folder-lock.ts'
import { restoreStore } from '../../store/restore-store.ts'
import { loadStoreKey } from '../../store/store-key.ts'
import { DIR, folderOf, misuse, print, STORE_KEY, type Command } from './command.ts'

export const restore: Command = {
  words: 'restore',
  summary: 'fill a new folder from an export, before the first start of the agent that takes over',
  options: {
    ...DIR,
    from: { type: 'string', value: 'FILE', help: 'the export' },
    'identity-file': { type: 'string', value: 'FILE', help: 'the age identity that it was made for' },
    ...STORE_KEY,
  },
  examples: [
    'tenon agent restore --dir ./agent --from store.age --identity-file customer.key',
    'tenon agent start --dir ./agent --server https://tenon.example.com --join-token-file join.token',
  ],
  async run(input) {
    const { dir, storeKeyFile } = folderOf(restore, input)
    const from = input.text('from')
    const identityFile = input.text('identity-file')
    if (!from || !identityFile) throw misuse(restore, '--from and --identity-file are needed')
    const file = await readInput(from)
    const identity = identityIn((await readInput(identityFile)).toString('utf8'))
    await mkdir(dir, { recursive: true, mode: 0o700 })
    const lock = await lockFolder(dir, 'command')
    try {
      if (await readIdentity(dir)) throw notNew(dir)
      const key = await loadStoreKey({ file: storeKeyFile, create: true })
      const restored = await restoreStore({ file, identity, dir: path.join(dir, 'store'), key })
      print(input.io, `${restored.records} records of ${restored.exportedAt} are restored into ${dir}`)
    } finally {
      await lock.release()
    }
    input.io.stderr.write('next: start an agent in this folder with a new join token of the same install\n')
  },
}

async function readInput(file: string): Promise<Buffer> {
  return readFile(file).catch((cause: Error) => {
    const message = `The file ${file} cannot be read: ${cause.message}.`
    throw new AgentError('bad_value', message, 'Check the path and who may read it.', { cause })
  })
}

/** Pure: the identity in a file as `age-keygen` and `keygen` write it, comments and all. */
export function identityIn(text: string): string {
  const lines = text.split(/\r?\n/).map((line) => line.trim())
  return lines.find((line) => line !== '' && !line.startsWith('#')) ?? ''
}

function notNew(dir: string): AgentError {
  return new AgentError(
    'folder_not_new',
    `The folder ${dir} holds an agent that has enrolled already.`,
    'Restore into a new, empty folder and start the new agent there.',
  )
}
