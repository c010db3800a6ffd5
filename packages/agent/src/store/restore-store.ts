import { Decrypter } from 'age-encryption'
import { makeFolder, removeDurably, writeDurably } from './durable-files.ts'
import { damagedExport, parseExport } from './export-format.ts'
import { deriveKeys } from './sealed-record.ts'
import { StoreError } from './store-error.ts'
import {
  clearFolder,
  holdsRecords,
  isRestoring,
  storeFolder,
  writeMark,
  writeRecord,
} from './store-folder.ts'
import { lockFolder } from './store-lock.ts'

/**
 * Replaces an agent whose disk is gone. The file is read and checked whole before anything is written; while
 * records are written a mark says so, and a store that has it refuses to open until the restore ran to its end.
 */
export async function restoreStore(options: {
  file: Uint8Array
  identity: string
  dir: string
  key: Uint8Array
}): Promise<{ records: number; exportedAt: string }> {
  const { exportedAt, records } = parseExport(await decrypt(options.file, options.identity))
  const keys = deriveKeys(options.key)
  const folder = storeFolder(options.dir)
  await makeFolder(folder.dir)
  const release = await lockFolder(folder.dir)
  try {
    if (!(await isRestoring(folder)) && (await holdsRecords(folder))) {
      throw new StoreError(
        'store_not_empty',
        `The install store in ${folder.dir} is not empty. Restore into an empty folder, before the agent's first start.`,
      )
    }
    await makeFolder(folder.tmp)
    await writeDurably(folder.tmp, folder.restoring, Buffer.from(`${exportedAt}\n`))
    await clearFolder(folder)
    for (const { data, ...header } of records) {
      await writeRecord(folder, keys, { ...header, removed: false }, Buffer.from(data, 'base64'))
    }
    await writeMark(folder, keys)
    await removeDurably([folder.restoring])
  } finally {
    await release()
  }
  return { records: records.length, exportedAt }
}

async function decrypt(file: Uint8Array, identity: string): Promise<Uint8Array> {
  const decrypter = new Decrypter()
  try {
    decrypter.addIdentity(identity.trim())
  } catch (cause) {
    throw wrongIdentity('This is not an age identity (AGE-SECRET-KEY-1…).', cause)
  }
  try {
    return await decrypter.decrypt(file)
  } catch (cause) {
    if (cause instanceof Error && cause.message.includes('no identity matched')) {
      throw wrongIdentity(
        'The export was not made for this identity, or its first lines were changed.',
        cause,
      )
    }
    throw damagedExport('it was changed, cut short, or is not an age file', cause)
  }
}

function wrongIdentity(message: string, cause: unknown): StoreError {
  return new StoreError('export_wrong_identity', message, { cause })
}
