import type { KeyLink } from '@tenon/core'
import type { SigningKey } from '../crypto.ts'

/** The server's signing keys. The newest signs; every older one vouches for the next, so that agents can follow. */
export interface KeyRing {
  current(): { keyId: string; key: SigningKey }
  links(): KeyLink[]
  /** Reads again what another process may have added. */
  reload(): Promise<void>
}
