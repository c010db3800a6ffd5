import { documentDigest, type OwnFact, type SignedDocument } from '@tenon/core'
import type { AgentHello } from '@tenon/protocol'
import { sha256 } from '../crypto.ts'

/** A longer one names more jobs than an agent can have begun with; the audit keeps its digest, as every start writes one. */
const MAX_KEPT_HELLO = 65_536

/** What the audit says of a start of an agent: in the agent's own signed words, and in short for whoever reads it. */
export function startFact(
  agent: { id: string; isFirst: boolean },
  hello: AgentHello,
  { text, keyId, signature }: SignedDocument,
): OwnFact<'agent'> {
  const kept = text.length <= MAX_KEPT_HELLO ? { text } : { digest: documentDigest(text, sha256) }
  return {
    actor: { type: 'agent', id: agent.id },
    action: agent.isFirst ? 'agent.connected' : 'agent.superseded_earlier',
    subject: { type: 'agent', id: agent.id },
    outcome: 'ok',
    manifestDigest: null,
    details: {
      bootCounter: hello.bootCounter,
      version: hello.version,
      runtime: hello.runtime.name,
      confinement: hello.runtime.confinement,
      hello: { ...kept, keyId, signature },
    },
  }
}
