import { signingBytes, type Sign, type Verify } from './canonical.ts'
import { openSignedText, signText, type SignedText } from './signed-text.ts'

/** Said of a new key of an agent, by the key before it, and by the new one of the key before. */
export interface AgentKeyChange {
  agentId: string
  previous: string
  publicKey: string
  /** By the new key, over the three fields above. */
  countersignature: string
}

interface Signer {
  publicKey: string
  sign: Sign
}

export function signKeyChange(agentId: string, before: Signer, after: Signer): SignedText {
  const change = { agentId, previous: before.publicKey, publicKey: after.publicKey }
  const countersignature = after.sign(signingBytes('agent-key/1', change))
  return signText('agent-key/1', { ...change, countersignature }, before.sign)
}

/** Undefined unless both keys signed it. Who reads it still has to know one of the two. */
export function readKeyChange(document: SignedText, verify: Verify): AgentKeyChange | undefined {
  const claimed = changeOf(document.text)
  if (!claimed || openSignedText('agent-key/1', document, claimed.previous, verify) === undefined)
    return undefined
  const { countersignature, ...change } = claimed
  return verify(claimed.publicKey, signingBytes('agent-key/1', change), countersignature)
    ? claimed
    : undefined
}

/**
 * All keys of an agent that its changes of keys tie to a known one, oldest first: those after it, which it vouches for,
 * and those before it, which it owned up to when it was new.
 */
export function agentKeys(
  agentId: string,
  known: string,
  changes: readonly SignedText[],
  verify: Verify,
): string[] {
  const keys = [known]
  const left = changes.flatMap((document) => readKeyChange(document, verify) ?? [])
  const mine = new Set(left.filter((change) => change.agentId === agentId))
  for (let grew = true; grew;) {
    grew = false
    for (const change of mine) {
      if (change.previous === keys.at(-1)) keys.push(change.publicKey)
      else if (change.publicKey === keys[0]) keys.unshift(change.previous)
      else continue
      mine.delete(change)
      grew = true
    }
  }
  return keys
}

function changeOf(text: string): AgentKeyChange | undefined {
  try {
    const { agentId, previous, publicKey, countersignature } = JSON.parse(text) as Record<string, unknown>
    const fields = [agentId, previous, publicKey, countersignature]
    if (!fields.every((field) => typeof field === 'string')) return undefined
    return { agentId, previous, publicKey, countersignature } as AgentKeyChange
  } catch {
    return undefined
  }
}
