/** `state` and `plan` are Terraform's, by component: bytes that nobody but a job of that component reads. */
export const STORE_KINDS = ['output', 'secret', 'state', 'plan', 'meta'] as const
export type StoreKind = (typeof STORE_KINDS)[number]

export const KEPT_VERSIONS = 20

/**
 * The agent's durable store inside the install. A `put` that resolved survives any crash; one that did not
 * leaves either the old value or the new one. Version numbers of a name only grow, also past a `remove`,
 * which erases every version at once. Calls after `close` fail with `store_closed`.
 */
export interface InstallStore {
  get(kind: StoreKind, name: string): Promise<Uint8Array | undefined>
  /** Undefined when that version never was, was removed, or is older than the last `KEPT_VERSIONS`. */
  getVersion(kind: StoreKind, name: string, version: number): Promise<Uint8Array | undefined>
  put(kind: StoreKind, name: string, bytes: Uint8Array): Promise<{ version: number }>
  /** Sorted by name; `version` is the newest one. */
  list(kind: StoreKind): Promise<{ name: string; version: number }[]>
  /** Oldest first. */
  history(kind: StoreKind, name: string): Promise<StoredVersion[]>
  remove(kind: StoreKind, name: string): Promise<void>
  close(): Promise<void>
}

export type StoreReader = Pick<InstallStore, 'get' | 'getVersion' | 'list' | 'history'>

export interface StoredVersion {
  version: number
  at: string
  /** `sha256:…` of its bytes, so that a version can be found without reading any; null where an older store wrote it. */
  digest: string | null
}
