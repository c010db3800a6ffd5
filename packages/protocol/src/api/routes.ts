import { AGENT_ROLES, PRINCIPAL_KINDS, USER_ROLES } from '@tenon/core'
import { z } from 'zod'
import { signedText } from '../enrol.ts'
import { keyLink } from '../enrol.ts'
import { buildableName, digest, id, name, openValue, text } from '../scalars.ts'
import { app } from './app.ts'
import { artifactRoutes } from './artifact-routes.ts'
import { installRoutes } from './install-routes.ts'
import { byId, byRef, listOf, page, route } from './route.ts'
import * as view from './views.ts'

const READ = 'read' as const
const OPERATE = 'operate' as const
const ADMINISTER = 'administer' as const

export const routes = {
  'server.info': route({
    method: 'GET',
    path: '/api/v1/server',
    tag: 'server',
    permission: READ,
    subject: 'none',
    summary: 'The server: its id, version and keys.',
    response: z.object({
      serverId: z.string(),
      version: z.string(),
      fingerprint: z.string(),
      keys: z.array(keyLink),
      you: z.object({
        tokenId: id,
        name: z.string(),
        role: openValue(USER_ROLES),
        principal: view.who.nullable().default(null),
      }),
    }),
  }),
  'keys.rotate': route({
    method: 'POST',
    path: '/api/v1/keys/rotate',
    tag: 'server',
    permission: ADMINISTER,
    subject: 'none',
    summary: 'Make a new signing key, vouched for by the current one.',
    response: z.object({ keys: z.array(keyLink) }),
  }),

  'tokens.list': route({
    method: 'GET',
    path: '/api/v1/tokens',
    tag: 'tokens',
    permission: ADMINISTER,
    subject: 'none',
    summary: 'API tokens, without their secrets.',
    query: page,
    response: listOf(view.tokenView),
  }),
  'tokens.create': route({
    method: 'POST',
    path: '/api/v1/tokens',
    tag: 'tokens',
    permission: ADMINISTER,
    subject: 'none',
    summary: 'Make an API token; its secret is shown once.',
    body: z.strictObject({
      name: text(100).min(1),
      role: z.enum(USER_ROLES),
      expiresInSeconds: z.int().positive().max(31_622_400).nullable().default(7_776_000),
      /** Who is to own it; without one a new principal of this name and kind. */
      principal: id.optional(),
      kind: z.enum(PRINCIPAL_KINDS).default('user'),
    }),
    response: z.object({ token: view.tokenView, secret: z.string() }),
  }),
  'tokens.revoke': route({
    method: 'DELETE',
    path: '/api/v1/tokens/:id',
    tag: 'tokens',
    permission: ADMINISTER,
    subject: 'none',
    summary: 'Revoke an API token at once.',
    params: byId('token'),
    response: view.tokenView,
  }),

  'apps.list': route({
    method: 'GET',
    path: '/api/v1/apps',
    tag: 'apps',
    permission: READ,
    subject: 'apps',
    summary: 'Apps with their newest version.',
    query: page,
    response: listOf(view.appView),
  }),
  'apps.get': route({
    method: 'GET',
    path: '/api/v1/apps/:ref',
    tag: 'apps',
    permission: READ,
    subject: 'app:ref',
    summary: 'One app.',
    params: byRef,
    response: view.appView,
  }),
  'apps.sync': route({
    method: 'POST',
    path: '/api/v1/apps',
    tag: 'apps',
    permission: OPERATE,
    subject: 'app:body',
    summary: 'Store a new immutable version of an app; the same content again changes nothing.',
    body: z.strictObject({ app }),
    response: z.object({ app: view.appView, changed: z.boolean() }),
  }),

  'apps.versions': route({
    method: 'GET',
    path: '/api/v1/apps/:ref/versions',
    tag: 'apps',
    permission: READ,
    subject: 'app:ref',
    summary: 'Versions of an app, newest first; `after` is a number here.',
    params: byRef,
    query: page,
    response: listOf(view.appVersionView),
  }),
  'apps.version': route({
    method: 'GET',
    path: '/api/v1/apps/:ref/versions/:number',
    tag: 'apps',
    permission: READ,
    subject: 'app:ref',
    summary: 'One version of an app, with its content.',
    params: byRef.extend({ number: z.coerce.number().int().min(1).max(2_147_483_647) }),
    response: view.appVersionView.extend({ app }),
  }),

  'sources.put': route({
    method: 'PUT',
    path: '/api/v1/sources',
    tag: 'builds',
    permission: OPERATE,
    subject: 'none',
    summary:
      'Send a component’s source as a tar.gz; `digest` names the artifact it becomes, `layer` its bytes.',
    body: 'bytes',
    response: z.object({ digest, layer: digest, size: z.int() }),
  }),
  'builds.create': route({
    method: 'POST',
    path: '/api/v1/apps/:ref/builds',
    tag: 'builds',
    permission: OPERATE,
    subject: 'app:ref',
    summary:
      'Build components, and actions as `action:NAME`, of the newest version, from sources sent before or (null) from where each says.',
    params: byRef,
    body: z.strictObject({
      components: z
        .array(z.strictObject({ name: buildableName, source: digest.nullable() }))
        .min(1)
        .max(1000),
    }),
    response: z.object({ builds: z.array(view.buildView) }),
  }),
  'builds.list': route({
    method: 'GET',
    path: '/api/v1/builds',
    tag: 'builds',
    permission: READ,
    subject: 'apps',
    summary: 'Builds, newest first.',
    query: page.extend({ app: name.optional() }),
    response: listOf(view.buildView),
  }),
  'builds.get': route({
    method: 'GET',
    path: '/api/v1/builds/:id',
    tag: 'builds',
    permission: READ,
    subject: 'app:build',
    summary: 'One build.',
    params: byId('build'),
    response: view.buildView,
  }),
  'builds.cancel': route({
    method: 'POST',
    path: '/api/v1/builds/:id/cancel',
    tag: 'builds',
    permission: OPERATE,
    subject: 'app:build',
    summary: 'Cancel a build.',
    params: byId('build'),
    response: view.buildView,
  }),

  ...artifactRoutes,
  ...installRoutes,

  'agents.list': route({
    method: 'GET',
    path: '/api/v1/agents',
    tag: 'agents',
    permission: READ,
    subject: 'installs',
    summary: 'Agents and their connection.',
    query: page,
    response: listOf(view.agentView),
  }),
  'agents.joinToken': route({
    method: 'POST',
    path: '/api/v1/agents/join-token',
    tag: 'agents',
    permission: ADMINISTER,
    subject: 'none',
    summary: 'A one-time token for a new build or setup agent.',
    body: z.strictObject({
      role: z.enum(AGENT_ROLES).exclude(['install']),
      expiresInSeconds: z.int().min(1).max(604_800).default(3600),
    }),
    response: z.object({ joinToken: z.string(), expiresAt: z.string() }),
  }),
  'agents.revoke': route({
    method: 'DELETE',
    path: '/api/v1/agents/:id',
    tag: 'agents',
    permission: ADMINISTER,
    subject: 'install:agent',
    summary: 'End an agent’s identity at once.',
    params: byId('agent'),
    response: view.agentView,
  }),

  'audit.chains': route({
    method: 'GET',
    path: '/api/v1/audit',
    tag: 'audit',
    permission: READ,
    subject: 'installs',
    summary: 'Every audit chain with its signed head.',
    response: z.object({
      chains: z.array(view.signedHead),
      /** With each later key that it took, signed by the one before it and by itself. */
      agents: z.array(
        // Absent: a server from before keys changed.
        z.object({ agentId: id, publicKey: z.string(), keyChanges: z.array(signedText).default([]) }),
      ),
    }),
  }),
  'audit.entries': route({
    method: 'GET',
    path: '/api/v1/audit/:chain',
    tag: 'audit',
    permission: READ,
    subject: 'install:chain',
    summary: 'Entries of one chain, in order, as they are hashed.',
    params: z.strictObject({ chain: z.string().max(64) }),
    query: z.strictObject({
      afterSeq: z.coerce.number().int().min(0).default(0),
      limit: z.coerce.number().int().min(1).max(1000).default(200),
    }),
    response: z.object({
      entries: z.array(view.sealedEntry),
      head: view.signedHead,
      /** What the users and services among the actors are called today. */
      names: z.record(z.string(), z.string()).default({}),
    }),
  }),
}

export type Routes = typeof routes
export type RouteName = keyof Routes
