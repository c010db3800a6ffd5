import type { Logger } from 'pino'
import type { AgentConfig } from '../config.ts'
import type { Egress } from '../egress/settings.ts'
import type { JobRunner } from '../jobs/runner.ts'
import type { Runtime, RuntimeTraits } from '../runtime/runtime.ts'
import { createSecretSource } from './absent-secrets.ts'
import type { OwnCertificate } from './certificate.ts'
import { createJobAccess, type JobAccessContext } from './job-access.ts'
import { serveJobApi } from './server.ts'
import { prepareCertificate } from './tls.ts'

export interface SecureApi {
  url: string
  host: string
  port: number
  certificate: OwnCertificate
}

/** On a cluster jobs see no socket: they come over TLS, to an address and a certificate that stay. */
export async function prepareSecureApi(
  { kubernetes, dir }: Pick<AgentConfig, 'kubernetes' | 'dir'>,
  { reach }: RuntimeTraits,
  nowMs: number,
): Promise<SecureApi | undefined> {
  const api = kubernetes?.api
  if (reach !== 'tls' || api === undefined) return undefined
  const named = new URL(api.url).hostname.replaceAll(/^\[|\]$/g, '')
  return { ...api, certificate: await prepareCertificate(dir, named, nowMs) }
}

/** Where jobs reach the agent. */
export interface JobDoors {
  socket: string
  secure: SecureApi | undefined
  egress: Egress
}

type Parts = Pick<
  JobAccessContext,
  'config' | 'identity' | 'journal' | 'credentials' | 'store' | 'send' | 'clock'
> & { runner: JobRunner; runtime: Runtime; log: Logger }

/** Serves jobs what they may ask of the agent, each by its own token. */
export function serveJobs(parts: Parts, { socket, secure, egress }: JobDoors) {
  const { runner, runtime, store, log } = parts
  const context = {
    ...parts,
    egress: egress.settings,
    secretOf: store && createSecretSource(store),
    stateLockHolder: (component: string) => runner.stateLockHolder(component),
    services: runtime.services,
    isElsewhere: runtime.traits.reach === 'tls',
  }
  return serveJobApi({
    socket,
    secure,
    jobGroup: runtime.traits.jobGroup,
    authenticate: (token) => {
      const life = runner.authenticate(token)
      return life && createJobAccess(context, life)
    },
    relay: egress.relay,
    log,
  })
}
