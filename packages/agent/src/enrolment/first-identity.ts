import os from 'node:os'
import type { AgentConfig } from '../config.ts'
import { AgentError } from '../ground/errors.ts'
import { enrol, type EnrolOptions } from './enrol.ts'
import { bootIdentity, loadOrMakeKey, saveIdentity, type Identity } from './identity.ts'
import { readTokenFile } from './join-token.ts'

/** An agent that has none yet makes its key where it runs, and trades its join token for an id. */
export async function firstIdentity(
  config: Pick<AgentConfig, 'joinToken' | 'dir' | 'serverUrl' | 'proxy'>,
  around: Pick<EnrolOptions, 'log' | 'random' | 'clock' | 'signal'>,
): Promise<Identity> {
  const { joinToken, dir, serverUrl, proxy } = config
  if (!joinToken) {
    throw new AgentError(
      'not_enrolled',
      `The folder ${dir} holds no identity yet, and no join token was given.`,
      'Make a join token on the server and pass its file with --join-token-file.',
    )
  }
  const identity = await enrol({
    serverUrl,
    joinToken: 'value' in joinToken ? joinToken.value : await readTokenFile(joinToken.file),
    key: await loadOrMakeKey(dir),
    recipient: null,
    hostname: os.hostname().slice(0, 255),
    proxy,
    ...around,
  })
  await saveIdentity(dir, identity)
  const booted = await bootIdentity(dir)
  if (!booted) throw new Error(`the identity just written to ${dir} is gone`)
  return booted
}
