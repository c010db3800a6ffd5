import { SERVER_CHAIN } from '@tenon/core'
import type { Client } from '@tenon/protocol'

/** Chains go by their install's id; people by its name. */
export async function chainId(client: Client, given: string): Promise<string> {
  if (given === SERVER_CHAIN || given.startsWith('ins_')) return given
  return (await client.call('installs.get', { params: { ref: given } })).id
}
