import { SERVER_CHAIN } from '@tenon/core'

/** Facts of an install are in its own chain, all others in the server's. */
export function chainOf(installId: string | null): string {
  return installId ?? SERVER_CHAIN
}
