/** Binary frames: one byte kind, four bytes stream, eight bytes offset of the first payload byte, then the payload. */
export const BULK_LOG = 1
/** What one of a kind that is not known is called in the answer to it. */
export const binaryName = (kind: number): string => `binary.${kind}`
const HEADER = 13

export interface BulkFrame {
  kind: number
  stream: number
  offset: number
  payload: Uint8Array
}

export function encodeBulk(frame: BulkFrame): Uint8Array {
  const out = new Uint8Array(HEADER + frame.payload.byteLength)
  const view = new DataView(out.buffer)
  view.setUint8(0, frame.kind)
  view.setUint32(1, frame.stream)
  view.setBigUint64(5, BigInt(frame.offset))
  out.set(frame.payload, HEADER)
  return out
}

/** Undefined when the bytes are no frame of ours. */
export function decodeBulk(bytes: Uint8Array): BulkFrame | undefined {
  if (bytes.byteLength < HEADER) return undefined
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const offset = Number(view.getBigUint64(5))
  if (!Number.isSafeInteger(offset)) return undefined
  return { kind: view.getUint8(0), stream: view.getUint32(1), offset, payload: bytes.subarray(HEADER) }
}
