import { APPROVAL_OPTIONS } from '@tenon/core'
import { z } from 'zod'
import { signedText } from '../enrol.ts'
import { buildableName, digest, id, idOf, json, jsonObject, name, partName, text } from '../scalars.ts'
import { byId, byRef, listOf, page, route } from './route.ts'
import * as view from './views.ts'

const READ = 'read' as const
const OPERATE = 'operate' as const

const ofStep = z.strictObject({ id: idOf('run'), step: idOf('step') })
const inputs = z.record(z.string().max(128), json).default({})
const installSettings = {
  approval: z.enum(APPROVAL_OPTIONS).optional(),
  toggles: z.record(partName, z.boolean()).optional(),
  overrides: z.record(partName, jsonObject).optional(),
}

/** What happens on installs: their deploys, runs and jobs. */
export const installRoutes = {
  'installs.list': route({
    method: 'GET',
    path: '/api/v1/installs',
    tag: 'installs',
    permission: READ,
    summary: 'Installs.',
    query: page.extend({ app: name.optional() }),
    response: listOf(view.installView),
  }),
  'installs.create': route({
    method: 'POST',
    path: '/api/v1/installs',
    tag: 'installs',
    permission: OPERATE,
    summary: 'Create an install and start its provision run.',
    body: z.strictObject({
      name,
      app: name,
      sandbox: z.strictObject({
        type: z.enum(['local', 'none']),
        config: z.record(z.string(), json).default({}),
      }),
      inputs,
      ...installSettings,
    }),
    response: z.object({ install: view.installView, run: view.runView.nullable() }),
  }),
  'installs.update': route({
    method: 'PATCH',
    path: '/api/v1/installs/:ref',
    tag: 'installs',
    permission: OPERATE,
    summary: 'Change inputs, approval, toggles or overrides; starts the runs that follow from it.',
    params: byRef,
    body: z.strictObject({
      /** Only the ones that change; null takes one back to its default. */
      inputs: z.record(z.string().max(128), json).optional(),
      ...installSettings,
      /** False: keep the change for the next deploy. */
      deploy: z.boolean().optional(),
      /** With what is switched off goes what stands on it; otherwise that is refused. */
      withDependents: z.boolean().optional(),
    }),
    response: z.object({ install: view.installView, runs: z.array(view.runView) }),
  }),
  'installs.get': route({
    method: 'GET',
    path: '/api/v1/installs/:ref',
    tag: 'installs',
    permission: READ,
    summary: 'One install.',
    params: byRef,
    response: view.installView,
  }),
  'installs.deprovision': route({
    method: 'POST',
    path: '/api/v1/installs/:ref/deprovision',
    tag: 'installs',
    permission: OPERATE,
    summary: 'Remove every component, then the sandbox.',
    params: byRef,
    response: view.runView,
  }),
  'installs.delete': route({
    method: 'DELETE',
    path: '/api/v1/installs/:ref',
    tag: 'installs',
    permission: OPERATE,
    summary: 'Take a deprovisioned install out of every list; its audit and its runs stay.',
    params: byRef,
    response: z.object({ id, name }),
  }),
  'installs.teardown': route({
    method: 'POST',
    path: '/api/v1/installs/:ref/teardown',
    tag: 'installs',
    permission: OPERATE,
    summary: 'Remove components, dependents first.',
    params: byRef,
    body: z.strictObject({ components: z.array(partName).max(1000).optional() }),
    response: view.runView,
  }),
  'installs.joinToken': route({
    method: 'POST',
    path: '/api/v1/installs/:ref/join-token',
    tag: 'installs',
    permission: OPERATE,
    summary: 'A one-time token for the install’s agent; one that replaces an agent takes an owner.',
    params: byRef,
    response: z.object({
      joinToken: z.string(),
      expiresAt: z.string(),
      /** The agent that is in place, or was last: it has to be released or revoked before the token works. */
      replaces: id.nullable(),
    }),
  }),
  'installs.recipient': route({
    method: 'GET',
    path: '/api/v1/installs/:ref/recipient',
    tag: 'installs',
    permission: OPERATE,
    summary: 'The age recipient to seal secrets to, signed by the install’s agent.',
    params: byRef,
    response: z.object({
      installId: id,
      installName: z.string(),
      agentId: id,
      agentPublicKey: z.string(),
      recipient: z.string(),
      signature: z.string(),
      /** Each later key of the agent, signed by the one before it and by itself. */
      keyChanges: z.array(signedText),
    }),
  }),
  'secrets.put': route({
    method: 'PUT',
    path: '/api/v1/installs/:ref/secrets/:name',
    tag: 'installs',
    permission: OPERATE,
    summary: 'Store a secret sealed to the install; the server cannot read it.',
    params: z.strictObject({ ref: z.string().min(1).max(64), name: partName }),
    body: z.strictObject({ ciphertext: z.base64().max(100_000) }),
    response: z.object({ name: partName, version: z.int(), delivered: z.boolean() }),
  }),
  'secrets.list': route({
    method: 'GET',
    path: '/api/v1/installs/:ref/secrets',
    tag: 'installs',
    permission: READ,
    summary: 'Names of the secrets sent to an install; never their values.',
    params: byRef,
    response: listOf(
      z.object({
        name: partName,
        version: z.int(),
        delivered: z.boolean(),
        /** Why the agent could not store it, in its own words; it is offered again every few minutes. */
        problem: z.string().nullable().default(null),
        setAt: z.string(),
      }),
    ),
  }),

  'deploys.create': route({
    method: 'POST',
    path: '/api/v1/installs/:ref/deploys',
    tag: 'deploys',
    permission: OPERATE,
    summary: 'Deploy the newest builds of components (all when none is named), or those that are named.',
    params: byRef,
    body: z.strictObject({
      components: z.array(partName).max(1000).optional(),
      /** Only what differs from what is there: another build, another configuration or input, or not healthy. */
      changed: z.boolean().optional(),
      /** Other than the newest, by component. */
      builds: z.record(partName, id).optional(),
    }),
    response: view.runView,
  }),
  'deploys.list': route({
    method: 'GET',
    path: '/api/v1/installs/:ref/deploys',
    tag: 'deploys',
    permission: READ,
    summary: 'What was deployed on an install, newest first.',
    params: byRef,
    query: page,
    response: listOf(view.deployView),
  }),

  'deploys.rollback': route({
    method: 'POST',
    path: '/api/v1/installs/:ref/deploys/:id/rollback',
    tag: 'deploys',
    permission: OPERATE,
    summary: 'Deploy once more what an earlier deploy brought.',
    params: z.strictObject({ ref: z.string().min(1).max(64), id: idOf('deploy') }),
    response: view.runView,
  }),
  'actions.run': route({
    method: 'POST',
    path: '/api/v1/installs/:ref/actions/:name',
    tag: 'actions',
    permission: OPERATE,
    summary: 'Run an action of the app on an install.',
    params: z.strictObject({ ref: z.string().min(1).max(64), name: partName }),
    response: view.runView,
  }),

  'runs.list': route({
    method: 'GET',
    path: '/api/v1/runs',
    tag: 'runs',
    permission: READ,
    summary: 'Runs, newest first.',
    query: page.extend({ install: z.string().max(64).optional() }),
    response: listOf(view.runView),
  }),
  'runs.get': route({
    method: 'GET',
    path: '/api/v1/runs/:id',
    tag: 'runs',
    permission: READ,
    summary: 'One run with its steps and what it waits for.',
    params: byId('run'),
    response: view.runView,
  }),
  'runs.watch': route({
    method: 'GET',
    path: '/api/v1/runs/:id/watch',
    tag: 'runs',
    permission: READ,
    summary: 'The run as server-sent events, one for each change, until it ends.',
    params: byId('run'),
    response: 'stream',
    media: 'text/event-stream',
  }),
  'runs.cancel': route({
    method: 'POST',
    path: '/api/v1/runs/:id/cancel',
    tag: 'runs',
    permission: OPERATE,
    summary: 'Cancel a run: nothing new starts, what runs is stopped.',
    params: byId('run'),
    response: view.runView,
  }),
  'steps.retry': route({
    method: 'POST',
    path: '/api/v1/runs/:id/steps/:step/retry',
    tag: 'runs',
    permission: OPERATE,
    summary: 'Run a failed or canceled step again.',
    params: ofStep,
    response: view.runView,
  }),

  'steps.skip': route({
    method: 'POST',
    path: '/api/v1/runs/:id/steps/:step/skip',
    tag: 'runs',
    permission: OPERATE,
    summary: 'Go on without a step that waits or has failed.',
    params: ofStep,
    response: view.runView,
  }),
  'steps.cancel': route({
    method: 'POST',
    path: '/api/v1/runs/:id/steps/:step/cancel',
    tag: 'runs',
    permission: OPERATE,
    summary: 'Cancel one step; what does not depend on it goes on.',
    params: ofStep,
    response: view.runView,
  }),
  'steps.approve': route({
    method: 'POST',
    path: '/api/v1/runs/:id/steps/:step/approve',
    tag: 'runs',
    permission: OPERATE,
    summary:
      'Approve a deploy by the digest of its plan, or of what its step asks about: exactly this is applied.',
    params: ofStep,
    body: z.strictObject({ digest: digest.nullable() }),
    response: view.runView,
  }),
  'steps.reject': route({
    method: 'POST',
    path: '/api/v1/runs/:id/steps/:step/reject',
    tag: 'runs',
    permission: OPERATE,
    summary: 'Reject a deploy that waits for approval: its component is left as it is.',
    params: ofStep,
    body: z.strictObject({ reason: text(500) }),
    response: view.runView,
  }),

  'jobs.list': route({
    method: 'GET',
    path: '/api/v1/jobs',
    tag: 'jobs',
    permission: READ,
    summary: 'Jobs, newest first.',
    query: page.extend({
      install: z.string().max(64).optional(),
      component: buildableName.optional(),
      status: view.jobStatus.optional(),
    }),
    response: listOf(view.jobView),
  }),
  'jobs.get': route({
    method: 'GET',
    path: '/api/v1/jobs/:id',
    tag: 'jobs',
    permission: READ,
    summary: 'One job, and what it waits for.',
    params: byId('job'),
    response: view.jobView,
  }),
  'jobs.manifest': route({
    method: 'GET',
    path: '/api/v1/jobs/:id/manifest',
    tag: 'jobs',
    permission: READ,
    summary: 'The signed manifest of a job.',
    params: byId('job'),
    response: z.object({ text: z.string(), keyId: id, signature: z.string(), digest }),
  }),
  'jobs.logs': route({
    method: 'GET',
    path: '/api/v1/jobs/:id/logs',
    tag: 'jobs',
    permission: READ,
    summary: 'The bytes of a job’s log from an offset; with `follow` until it ends.',
    params: byId('job'),
    query: z.strictObject({
      offset: z.coerce.number().int().min(0).default(0),
      follow: z.enum(['0', '1']).default('0'),
    }),
    response: 'stream',
    media: 'application/octet-stream',
  }),
  'jobs.cancel': route({
    method: 'POST',
    path: '/api/v1/jobs/:id/cancel',
    tag: 'jobs',
    permission: OPERATE,
    summary: 'Cancel a job.',
    params: byId('job'),
    response: view.jobView,
  }),
  'jobs.settle': route({
    method: 'POST',
    path: '/api/v1/jobs/:id/settle',
    tag: 'jobs',
    permission: OPERATE,
    summary: 'Declare how a lost job ended, after looking.',
    params: byId('job'),
    body: z.strictObject({
      outcome: z.enum(['succeeded', 'failed', 'canceled']),
      reason: text(500).min(3),
    }),
    response: view.jobView,
  }),
}
