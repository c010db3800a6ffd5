import { z } from 'zod'
import { buildableName, contentDigest, digest, id, name, partName, timestamp } from '../scalars.ts'
import { byId, listOf, page, route } from './route.ts'
import { buildView } from './views.ts'

const artifactSummary = z.object({
  /** Of the build that made it. */
  id,
  app: name,
  component: buildableName,
  repository: z.string(),
  digest,
  createdAt: timestamp,
  /** How many installs run it now. */
  installs: z.int(),
})

const blob = z.object({ digest: contentDigest, mediaType: z.string(), size: z.int() })

/** One node of the tree; what it names comes after it. */
const manifestNode = z.object({
  digest: contentDigest,
  mediaType: z.string(),
  artifactType: z.string().nullable(),
  size: z.int(),
  depth: z.int(),
  platform: z.string().nullable(),
  blobs: z.array(blob),
})

const artifactView = artifactSummary.extend({
  mediaType: z.string(),
  artifactType: z.string().nullable(),
  /** Of all manifests and blobs of tree and closure, each counted once. */
  bytes: z.int(),
  tree: z.array(manifestNode),
  closure: z.array(z.object({ image: z.string(), digest, isThere: z.boolean() })),
  signatures: z.array(
    z.object({
      digest: contentDigest,
      predicateType: z.string(),
      keyId: z.string(),
      /** By a key of this server, over this very digest. */
      isValid: z.boolean(),
    }),
  ),
  installed: z.array(z.object({ install: name, component: partName, deployedAt: timestamp.nullable() })),
})

const usage = z.object({
  repositories: z.array(
    z.object({ name: z.string(), tags: z.int(), manifests: z.int(), blobs: z.int(), bytes: z.int() }),
  ),
  contents: z.int(),
  bytes: z.int(),
  uploads: z.object({ count: z.int(), bytes: z.int() }),
})

export const artifactRoutes = {
  'builds.retry': route({
    method: 'POST',
    path: '/api/v1/builds/:id/retry',
    tag: 'builds',
    permission: 'operate',
    subject: 'app:build',
    summary: 'Build again what failed or was canceled: the same version of the app, the same source.',
    params: byId('build'),
    response: buildView,
  }),
  'artifacts.list': route({
    method: 'GET',
    path: '/api/v1/artifacts',
    tag: 'artifacts',
    permission: 'read',
    subject: 'apps',
    summary: 'What builds made, newest first.',
    query: page.extend({ app: name.optional(), component: buildableName.optional() }),
    response: listOf(artifactSummary),
  }),
  'artifacts.get': route({
    method: 'GET',
    path: '/api/v1/artifacts/:ref',
    tag: 'artifacts',
    permission: 'read',
    subject: 'app:artifact',
    summary: 'One artifact, by digest or by its build: its tree, closure, signatures, and where it runs.',
    params: z.strictObject({ ref: z.string().max(80) }),
    response: artifactView,
  }),
  'registry.usage': route({
    method: 'GET',
    path: '/api/v1/registry/usage',
    tag: 'registry',
    permission: 'read',
    subject: 'none',
    summary: 'What the vendor registry holds, and how much room that takes.',
    response: usage,
  }),
  'registry.login': route({
    method: 'POST',
    path: '/api/v1/registry/logins',
    tag: 'registry',
    permission: 'read',
    subject: 'apps',
    summary:
      'Make a short-lived credential by which docker, helm, oras and others pull from the vendor registry; it ends with the API token.',
    body: z.strictObject({ expiresInSeconds: z.int().min(60).max(3600).default(3600) }),
    response: z.object({ username: z.string(), password: z.string(), expiresAt: timestamp }),
  }),
  'registry.logout': route({
    method: 'DELETE',
    path: '/api/v1/registry/logins/:id',
    tag: 'registry',
    permission: 'read',
    subject: 'apps',
    summary: 'End such a credential of one’s own.',
    params: byId('registryLogin'),
    response: z.object({ id }),
  }),
  'registry.gc': route({
    method: 'POST',
    path: '/api/v1/registry/gc',
    tag: 'registry',
    permission: 'administer',
    subject: 'none',
    summary: 'Remove from the vendor registry what no build, plugin or unfinished job needs.',
    body: z.strictObject({
      dryRun: z.boolean().default(false),
      /** What was touched within these hours stays. */
      graceHours: z.int().min(2).max(8760).default(24),
    }),
    response: z.object({
      manifests: z.int(),
      blobs: z.int(),
      contents: z.int(),
      uploads: z.int(),
      bytesFreed: z.int(),
      dryRun: z.boolean(),
    }),
  }),
}
