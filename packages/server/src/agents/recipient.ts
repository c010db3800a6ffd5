import type { Context } from '../context.ts'
import { ApiFailure } from '../errors.ts'
import { keyChangesOf } from './keys.ts'

/** To whom the install's secrets are sealed, in its agent's own signed words. */
export async function recipientOf(context: Context, install: { id: string; name: string }) {
  const agent = await context.db
    .selectFrom('agent')
    .selectAll()
    .where('install_id', '=', install.id)
    .where('status', '=', 'enrolled')
    .executeTakeFirst()
  if (!agent?.recipient || !agent.recipient_signature)
    throw await noRecipient(context, install, agent !== undefined)
  const changes = await keyChangesOf(context.db, [agent.id])
  return {
    installId: install.id,
    installName: install.name,
    agentId: agent.id,
    agentPublicKey: agent.public_key,
    recipient: agent.recipient,
    signature: agent.recipient_signature,
    keyChanges: changes.get(agent.id) ?? [],
  }
}

/** Nobody's key is there to seal a value to: its agent is still to come, or was and is no more. */
async function noRecipient(
  { db }: Context,
  install: { id: string; name: string },
  isEnrolled: boolean,
): Promise<ApiFailure> {
  if (isEnrolled)
    return new ApiFailure('no_agent', `the agent of install ${install.name} has not connected yet`, {
      remedy: 'Wait until it has connected once: `tenon agent list`.',
    })
  const former = await db
    .selectFrom('agent')
    .select('id')
    .where('install_id', '=', install.id)
    .limit(1)
    .execute()
  const message =
    former.length === 0
      ? `no agent of install ${install.name} has enrolled yet`
      : `no agent of install ${install.name} is enrolled any more: it is revoked or replaced`
  return new ApiFailure('no_agent', message, {
    remedy: `Start one with a token of \`tenon installs join-token ${install.name}\`.`,
  })
}
