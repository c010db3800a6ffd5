import { z } from 'zod'
import { digest, openValue, repository, timestamp } from './scalars.ts'

/** Access to the vendor registry for one job: short, and bound to the job, its fencing number and what its manifest names. */
export const registryCredential = z.object({
  want: z.literal('registry'),
  /** Path below the server's own address, or an absolute address of an external registry. */
  registry: z.string(),
  bearer: z.string(),
  repositories: z.array(z.object({ name: repository, actions: z.array(openValue(['pull', 'push'])) })),
  expiresAt: timestamp,
  /** Of a sync: redeemed once, at `url` (as `registry`) by basic authentication, for the bearer; `bearer` is then empty. */
  oneTime: z.object({ url: z.string(), username: z.string(), password: z.string() }).optional(),
  /** What the server wishes its registry to be spared to. */
  pace: z
    .object({ concurrent: z.int().positive(), bytesPerSecond: z.number().positive().optional() })
    .optional(),
})

/** For a sandbox job: what the new install agent enrols with. */
export const joinCredential = z.object({
  want: z.literal('join-token'),
  joinToken: z.string(),
  expiresAt: timestamp,
})

/** Sigstore bundles (JSON text) over the artifact: its signature and its provenance. */
export const attestationCredential = z.object({
  want: z.literal('attestation'),
  repository,
  subject: z.object({ digest, mediaType: z.string(), size: z.int().nonnegative() }),
  bundles: z.array(z.object({ predicateType: z.string(), text: z.string().max(500_000) })).max(10),
})

export const jobCredential = z.discriminatedUnion('want', [
  registryCredential,
  joinCredential,
  attestationCredential,
])
export type JobCredential = z.infer<typeof jobCredential>
