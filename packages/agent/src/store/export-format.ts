import { z } from 'zod'
import { KEPT_VERSIONS, STORE_KINDS, type StoreKind } from './install-store.ts'
import { MAX_NAME_BYTES } from './sealed-record.ts'
import { StoreError } from './store-error.ts'

const FORMAT = 'tenon-install-store/1'

/**
 * One JSON line for the head, then one for each record: `age -d` and `jq` read it without Tenon. A field that is not known
 * here is left out; a record of a kind that is not known would be lost, so the whole is refused.
 */
export const exportHead = z.object({
  format: z.string().regex(/^tenon-install-store\/\d+$/),
  exportedAt: z.iso.datetime(),
  records: z.int().nonnegative(),
})
export const exportRecord = z.object({
  kind: z.string().max(64),
  name: z.string().min(1).max(MAX_NAME_BYTES),
  version: z.int().positive(),
  at: z.iso.datetime(),
  data: z.base64(),
})
export type ExportedRecord = z.infer<typeof exportRecord> & { kind: StoreKind }

export interface Export {
  exportedAt: string
  records: ExportedRecord[]
}

export function formatExport({ exportedAt, records }: Export): Uint8Array {
  const first: z.infer<typeof exportHead> = {
    format: FORMAT,
    exportedAt,
    records: records.length,
  }
  return Buffer.concat([first, ...records].map((line) => Buffer.from(`${JSON.stringify(line)}\n`)))
}

export function parseExport(bytes: Uint8Array): Export {
  const [first, ...rest] = splitLines(bytes)
  try {
    const { format, exportedAt, records: count } = exportHead.parse(JSON.parse(first?.toString() ?? ''))
    if (format !== FORMAT) throw newerExport(`it has the format ${format}`)
    const records = rest.map((line) => known(exportRecord.parse(JSON.parse(line.toString()))))
    if (records.length !== count) throw new Error(`it has ${records.length} records instead of ${count}`)
    checkVersions(records)
    return { exportedAt, records }
  } catch (cause) {
    if (cause instanceof StoreError) throw cause
    throw damagedExport('what is inside is not an export of an install store', cause)
  }
}

function known(one: z.infer<typeof exportRecord>): ExportedRecord {
  const kind = STORE_KINDS.find((name) => name === one.kind)
  if (kind) return { ...one, kind }
  throw newerExport(`it holds records of the kind ${one.kind}`)
}

function newerExport(why: string): StoreError {
  const remedy = 'Restore it with an agent of the version that made it, or a later one.'
  return new StoreError('export_newer', `This agent is too old for the export: ${why}. ${remedy}`)
}

export function damagedExport(why: string, cause: unknown): StoreError {
  return new StoreError('export_corrupt', `The export cannot be read: ${why}. Use another copy.`, { cause })
}

/** No number twice and no more than a store keeps: what is restored is what was exported. */
function checkVersions(records: readonly ExportedRecord[]): void {
  const versions = new Map<string, Set<number>>()
  for (const { kind, name, version } of records) {
    const entry = JSON.stringify([kind, name])
    const seen = versions.get(entry) ?? new Set()
    if (seen.has(version)) throw new Error(`it has version ${version} of ${entry} twice`)
    if (seen.size === KEPT_VERSIONS) throw new Error(`it has too many versions of ${entry}`)
    versions.set(entry, seen.add(version))
  }
}

function splitLines(bytes: Uint8Array): Buffer[] {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const lines: Buffer[] = []
  for (let start = 0; start < buffer.length;) {
    const newline = buffer.indexOf('\n', start)
    const end = newline < 0 ? buffer.length : newline
    lines.push(buffer.subarray(start, end))
    start = end + 1
  }
  return lines
}
