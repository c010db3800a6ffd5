import { agentKeys, signingBytes } from '@tenon/core'
import type { CallOutput } from '@tenon/protocol'
import { Encrypter } from 'age-encryption'
import type { KnownServer } from '../audit/known-servers.ts'
import { keyFingerprint, verifyEd25519 } from '../crypto.ts'
import { CliError } from '../errors.ts'
import { EXIT } from '../exit-codes.ts'

type Recipient = CallOutput<'installs.recipient'>

/**
 * The server hands the recipient on, so it is used only when the agent signed it, with the key by which this machine
 * knows the agent of that install, or one to which its changes of keys lead from there. Says whether it is new here.
 */
export function checkRecipient(
  install: string,
  offered: Recipient,
  known: Pick<KnownServer, 'agents' | 'installs'>,
  accepted: string | undefined,
): boolean {
  const { agentId, agentPublicKey, recipient, signature, installId, installName } = offered
  if (install !== installId && install !== installName)
    throw new CliError(EXIT.failed, `the server answered for install ${installName}, not for ${install}`, {
      next: 'send nothing secret, and ask whoever runs the server',
    })
  const shown = keyFingerprint(agentPublicKey)
  const pins = pinsOf(install, offered, known)
  const broken = pins.find((pin) => !leadsTo(pin, offered))
  if (accepted !== undefined && accepted !== shown)
    throw new CliError(EXIT.failed, `the agent of ${install} has the key ${shown}, not ${accepted}`, {
      next: NEXT,
    })
  if (accepted === undefined && broken !== undefined) {
    throw new CliError(
      EXIT.failed,
      `the agent of ${install} has another key than before, and the one before does not vouch for it: known here ${keyFingerprint(broken)}, shown now ${shown}`,
      { next: NEXT },
    )
  }
  if (!verifyEd25519(agentPublicKey, signingBytes('agent-recipient/1', { agentId, recipient }), signature)) {
    throw new CliError(EXIT.failed, `the recipient to seal to is not signed by agent ${agentId}`, {
      next: NEXT,
    })
  }
  return pins.length === 0 || broken !== undefined
}

const NEXT =
  'send nothing secret; ask the customer for the key that `tenon agent status` shows them; if it is the one shown now: --agent-key FINGERPRINT'

/** Under every name of the install, so that the server cannot choose by which one it is looked up. */
export function pinRecipient(
  install: string,
  { installId, installName, agentPublicKey }: Recipient,
  known: Pick<KnownServer, 'installs'>,
): void {
  for (const name of [install, installId, installName]) known.installs[name] = agentPublicKey
}

function pinsOf(
  install: string,
  { installId, installName, agentId }: Recipient,
  { agents, installs }: Pick<KnownServer, 'agents' | 'installs'>,
): string[] {
  const own = (pins: Record<string, string>, name: string) => (Object.hasOwn(pins, name) ? [pins[name]!] : [])
  const found = [install, installId, installName].flatMap((name) => own(installs, name))
  return [...new Set(found.length > 0 ? found : own(agents, agentId))]
}

/** Forward only: a key that has been followed by another one is not the agent's any more. */
function leadsTo(pin: string, { agentId, agentPublicKey, keyChanges }: Recipient): boolean {
  const keys = agentKeys(agentId, pin, keyChanges, verifyEd25519)
  return keys.indexOf(pin) <= keys.lastIndexOf(agentPublicKey)
}

/** age ciphertext in base64; only the agent can open it. */
export async function seal(value: Uint8Array, recipient: string): Promise<string> {
  const encrypter = new Encrypter()
  encrypter.addRecipient(recipient)
  return Buffer.from(await encrypter.encrypt(value)).toString('base64')
}
