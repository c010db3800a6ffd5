export const STORE_ERRORS = [
  'store_wrong_key',
  'store_corrupt',
  'store_locked',
  'store_busy',
  'store_closed',
  'store_bad_name',
  'store_not_empty',
  'key_missing',
  'key_exposed',
  'key_malformed',
  'sealed_unreadable',
  'export_bad_recipient',
  'export_wrong_identity',
  'export_corrupt',
  'export_newer',
] as const
export type StoreErrorCode = (typeof STORE_ERRORS)[number]

/** Its message names what is wrong and what to do next; it never holds a value or a key. */
export class StoreError extends Error {
  readonly code: StoreErrorCode

  constructor(code: StoreErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options)
    this.name = 'StoreError'
    this.code = code
  }
}
