import { signingBytes } from '@tenon/core'
import type { CallOutput } from '@tenon/protocol'
import { Encrypter } from 'age-encryption'
import { keyFingerprint, verifyEd25519 } from '../crypto.ts'
import { CliError } from '../errors.ts'
import { EXIT } from '../exit-codes.ts'

type Recipient = CallOutput<'installs.recipient'>

/** The server hands the recipient on, so it is used only when the agent signed it, with the key this machine knows it by. */
export function checkRecipient(offered: Recipient, knownKey: string | undefined): void {
  const { agentId, agentPublicKey, recipient, signature } = offered
  const next = 'send nothing secret; ask the customer for the key of their agent and compare'
  if (knownKey !== undefined && knownKey !== agentPublicKey) {
    throw new CliError(
      EXIT.failed,
      `agent ${agentId} has another key than before (${keyFingerprint(agentPublicKey)})`,
      { next },
    )
  }
  if (!verifyEd25519(agentPublicKey, signingBytes('agent-recipient/1', { agentId, recipient }), signature)) {
    throw new CliError(EXIT.failed, `the recipient to seal to is not signed by agent ${agentId}`, { next })
  }
}

/** age ciphertext in base64; only the agent can open it. */
export async function seal(value: Uint8Array, recipient: string): Promise<string> {
  const encrypter = new Encrypter()
  encrypter.addRecipient(recipient)
  return Buffer.from(await encrypter.encrypt(value)).toString('base64')
}
