import { generateX25519Identity, identityToRecipient } from 'age-encryption'
import { misuse, print, type Command } from './command.ts'
import { writePrivateFile } from './private-file.ts'

export const keygen: Command = {
  words: 'keygen',
  summary: 'make an age identity for exports; its recipient goes to stdout',
  options: {
    out: { type: 'string', value: 'FILE', help: 'where the identity is written, readable by you alone' },
  },
  examples: [
    'tenon agent keygen --out customer.key',
    'tenon agent export --dir ./agent --to "$(tenon agent keygen --out customer.key)" --out store.age',
  ],
  async run({ io, text }) {
    const file = text('out')
    if (!file) throw misuse(keygen, '--out is needed: the file for the identity')
    const identity = await generateX25519Identity()
    const recipient = await identityToRecipient(identity)
    // The form that `age-keygen` writes, so that `age -d -i` takes it too.
    const made = new Date(io.clock()).toISOString()
    await writePrivateFile(file, `# created: ${made}\n# public key: ${recipient}\n${identity}\n`)
    print(io, recipient)
    io.stderr.write(
      `${file} opens every export made for this recipient. Keep it away from the install, and a copy of it.\n`,
    )
  },
}
