import { jobOutputs, type AgentFrame, type JobContext, type JobCredential } from '@tenon/protocol'
import type { z } from 'zod'
import type { AgentConfig } from '../config.ts'
import { findDeclared } from '../egress/declared.ts'
import { rulesFor, type EgressSettings } from '../egress/job-egress.ts'
import type { Identity } from '../enrolment/identity.ts'
import { installRegistryBearer } from '../ground/registry-access.ts'
import type { JobLife } from '../jobs/life.ts'
import { cacheDirOf, kubeconfigOf } from '../jobs/spec.ts'
import type { JournalEntry } from '../journal/journal-entry.ts'
import type { Journal } from '../journal/journal.ts'
import { textsOf } from '../masking/given-secrets.ts'
import type { Services } from '../runtime/services.ts'
import type { InstallStore } from '../store/install-store.ts'
import type { createSecretSource } from './absent-secrets.ts'
import type { CredentialRequests } from './credential-requests.ts'
import type { JobAccess } from './route.ts'
import { createServiceAccess } from './service-access.ts'
import { createTerraformAccess } from './terraform-access.ts'

/** A job that tells its progress more often than this is not heard each time. */
const PROGRESS_EVERY_MS = 200

export interface JobAccessContext {
  config: AgentConfig
  identity: Identity
  journal: Journal<JournalEntry>
  credentials: CredentialRequests
  /** Install agents only. */
  store: InstallStore | undefined
  /** Of the same store. */
  secretOf: ReturnType<typeof createSecretSource> | undefined
  stateLockHolder: (component: string) => JobLife | undefined
  egress: EgressSettings
  /** Jobs see nothing of the agent's machine. */
  isElsewhere: boolean
  /** Of the runtime, where it has them. */
  services: Services | undefined
  send: (frame: AgentFrame) => boolean
  clock: () => number
}

/** What one job may ask of the agent, and nothing of another job. */
export function createJobAccess(context: JobAccessContext, life: JobLife): JobAccess {
  const { config, journal, credentials, store, stateLockHolder, services, send, clock } = context
  const { id, manifest } = life
  const secretOf = context.secretOf
  return {
    ...id,
    manifest,
    manifestText: life.record.document.text,
    egress: {
      jobId: id.jobId,
      rules: rulesFor(manifest, context.egress),
      declared: () => findDeclared(store, manifest, () => !life.hasGivenOutputs),
    },
    terraform: store && createTerraformAccess({ journal, store, stateLockHolder }, life),
    services:
      store &&
      services &&
      createServiceAccess({ services, registry: config.registry, limits: config.networks }, manifest),
    context: (waitMs) => jobContextOf(context, life, waitMs),
    credential: async (want, waitMs, artifact) => {
      const credential = absolute(context, await credentials.request(id, want, waitMs, artifact))
      await life.give(secretsOf(credential))
      return credential
    },
    secret: async (name) => {
      const value = await secretOf?.(manifest, name)
      if (value !== undefined) await life.give([value])
      return value
    },
    outputsOf: async (component) => {
      const text = decode(await store?.get('output', component))
      if (text === undefined) return undefined
      const outputs = jobOutputs.parse(JSON.parse(text))
      await life.give(sensitiveTexts(outputs))
      return outputs
    },
    keepOutputs: async (component, outputs) => {
      life.hasGivenOutputs = true
      await life.give(sensitiveTexts(outputs))
      if (component === undefined || !store) return
      await store.put('output', component, new TextEncoder().encode(JSON.stringify(outputs)))
    },
    report: (outputs) => {
      const shown = life.mask.json(outputs) as typeof outputs
      return journal.append({ type: 'outputs', ...id, outputs: { ...life.record.outputs, ...shown } })
    },
    masked: (value) => life.mask.json(value),
    result: (result) => journal.append({ type: 'result', ...id, result }),
    progress: ({ message, fraction }) => {
      const now = clock()
      if (fraction !== 1 && now - life.progressAt < PROGRESS_EVERY_MS) return
      life.progressAt = now
      send({ type: 'job.progress', ...id, message, fraction })
    },
  }
}

async function jobContextOf(context: JobAccessContext, life: JobLife, waitMs: number): Promise<JobContext> {
  const { config, identity } = context
  const { isElsewhere } = context
  const cacheDir = isElsewhere ? undefined : cacheDirOf(config.dir, life.manifest)
  const kubeconfig = isElsewhere ? undefined : kubeconfigOf(life.manifest, config.jobKubeconfig)
  return {
    installId: identity.installId,
    registry: await registryOf(context, life, waitMs),
    hostSocket: config.hostSocket ?? null,
    serverUrl: config.serverUrl,
    programs: config.programs,
    serverKeys: Object.fromEntries(identity.keysAt(context.clock())),
    ...(cacheDir === undefined ? {} : { cacheDir }),
    ...(kubeconfig === undefined ? {} : { kubeconfig }),
    ...(context.store && context.services ? { hasServices: true } : {}),
  }
}

/** An install's jobs read its own registry, also while the server is away; others read the vendor's. */
async function registryOf(
  context: JobAccessContext,
  life: JobLife,
  waitMs: number,
): Promise<JobContext['registry']> {
  const { config, identity, credentials } = context
  if (identity.role === 'install') {
    if (!config.registry) return null
    const bearer = await installRegistryBearer(config.registry, life.manifest, config.proxy)
    await life.give([bearer])
    const { url, nodeAddress } = config.registry
    return { url, bearer, ...(nodeAddress === undefined ? {} : { nodeAddress }) }
  }
  const credential = absolute(context, await credentials.request(life.id, 'registry', waitMs))
  await life.give([credential.bearer])
  return { url: credential.registry, bearer: credential.bearer }
}

function absolute<C extends JobCredential>(context: JobAccessContext, credential: C): C {
  if (credential.want !== 'registry') return credential
  const at = (path: string) => new URL(path, context.config.serverUrl).href
  const { oneTime } = credential
  return {
    ...credential,
    registry: at(credential.registry),
    ...(oneTime === undefined ? {} : { oneTime: { ...oneTime, url: at(oneTime.url) } }),
  }
}

function secretsOf(credential: JobCredential): string[] {
  if (credential.want === 'join-token') return [credential.joinToken]
  if (credential.want === 'attestation') return []
  return [credential.bearer, credential.oneTime?.password].filter((secret) => secret !== undefined)
}

function sensitiveTexts(outputs: z.infer<typeof jobOutputs>): string[] {
  return Object.values(outputs).flatMap(({ sensitive, value }) => (sensitive ? textsOf(value) : []))
}

function decode(bytes: Uint8Array | undefined): string | undefined {
  return bytes && new TextDecoder().decode(bytes)
}
