import { Encrypter } from 'age-encryption'
import { formatExport, type ExportedRecord } from './export-format.ts'
import { STORE_KINDS, type StoreReader } from './install-store.ts'
import { StoreError } from './store-error.ts'

/** Everything in the store, all versions, in one file that only the given age recipients can read. */
export async function exportStore(
  store: StoreReader,
  recipients: readonly string[],
  now: () => Date = () => new Date(),
): Promise<Uint8Array> {
  const encrypter = encrypterFor(recipients)
  const records = await collect(store)
  return encrypter.encrypt(formatExport({ exportedAt: now().toISOString(), records }))
}

async function collect(store: StoreReader): Promise<ExportedRecord[]> {
  const records: ExportedRecord[] = []
  for (const kind of STORE_KINDS) {
    for (const { name } of await store.list(kind)) {
      for (const { version, at } of await store.history(kind, name)) {
        // A version may have been pruned since it was listed.
        const bytes = await store.getVersion(kind, name, version)
        if (bytes) records.push({ kind, name, version, at, data: Buffer.from(bytes).toString('base64') })
      }
    }
  }
  return records
}

function encrypterFor(recipients: readonly string[]): Encrypter {
  if (recipients.length === 0) {
    throw new StoreError('export_bad_recipient', 'Name at least one age recipient (age1…) for the export.')
  }
  const encrypter = new Encrypter()
  for (const recipient of recipients) {
    try {
      encrypter.addRecipient(recipient)
    } catch (cause) {
      throw new StoreError(
        'export_bad_recipient',
        'One of the recipients is not an age recipient (age1…). Make one with `age-keygen`.',
        { cause },
      )
    }
  }
  return encrypter
}
