import { ApiFailure } from '../errors.ts'
import { actorOf } from '../operations/actor.ts'
import { createRun } from '../operations/create-run.ts'
import { createJoinToken } from '../operations/join-tokens.ts'
import type { Db } from '../store/database.ts'
import { transact } from '../store/transaction.ts'
import { runView } from '../store/views.ts'
import { findApp } from './apps.ts'
import { notFound, pageOf, type Call, type Handlers } from './handler.ts'

const JOIN_TOKEN_SECONDS = 3600

export const installHandlers = {
  'installs.list': async ({ context, query }) => {
    const rows = await context.db
      .selectFrom('install')
      .innerJoin('app', 'app.id', 'install.app_id')
      .select(['install.id'])
      .$if(query.app !== undefined, (q) => q.where('app.name', '=', query.app!))
      .$if(query.after !== undefined, (q) => q.where('install.id', '>', query.after!))
      .orderBy('install.id')
      .limit(query.limit + 1)
      .execute()
    const page = pageOf(rows, query.limit, (row) => row.id)
    return { items: await Promise.all(page.items.map((id) => installView(context.db, id))), next: page.next }
  },
  'installs.get': async ({ context, params }) =>
    installView(context.db, (await findInstall(context.db, params.ref)).id),
  'installs.create': createInstall,
  'installs.deprovision': async ({ context, params, caller }) => {
    const install = await findInstall(context.db, params.ref)
    if (install.status === 'deprovisioned')
      throw new ApiFailure('wrong_state', `install ${install.name} is already deprovisioned`)
    const runId = await transact(context, (tx) =>
      createRun(context, tx, install, () => ({ kind: 'deprovision' }), caller),
    )
    return (await runView(context.db, runId))!
  },
  'installs.teardown': async ({ context, params, body, caller }) => {
    const install = await findInstall(context.db, params.ref)
    const there = await context.db
      .selectFrom('install_component')
      .select('component')
      .where('install_id', '=', install.id)
      .execute()
    const names = there.map((row) => row.component)
    const missing = (body.components ?? []).filter((name) => !names.includes(name))
    if (missing.length > 0) throw new ApiFailure('not_found', `not on this install: ${missing.join(', ')}`)
    const runId = await transact(context, (tx) =>
      createRun(
        context,
        tx,
        install,
        () => ({ kind: 'teardown', components: body.components ?? names }),
        caller,
      ),
    )
    return (await runView(context.db, runId))!
  },
  'installs.joinToken': async ({ context, params, caller }) => {
    const install = await findInstall(context.db, params.ref)
    return transact(context, (tx) =>
      createJoinToken(
        context,
        tx,
        { role: 'install', installId: install.id, expiresInSeconds: JOIN_TOKEN_SECONDS },
        actorOf(caller),
      ),
    )
  },
  'installs.recipient': async ({ context, params }) => {
    const install = await findInstall(context.db, params.ref)
    const agent = await context.db
      .selectFrom('agent')
      .selectAll()
      .where('install_id', '=', install.id)
      .where('status', '=', 'enrolled')
      .executeTakeFirst()
    if (!agent?.recipient || !agent.recipient_signature) {
      throw new ApiFailure(
        'no_agent',
        `install ${install.name} has no agent that published a recipient yet`,
        { remedy: 'Wait until its agent has connected once.' },
      )
    }
    return {
      agentId: agent.id,
      agentPublicKey: agent.public_key,
      recipient: agent.recipient,
      signature: agent.recipient_signature,
    }
  },
  'secrets.put': async ({ context, params, body, caller }) => {
    const install = await findInstall(context.db, params.ref)
    return transact(context, async (tx) => {
      await tx.db.selectFrom('install').select('id').where('id', '=', install.id).forUpdate().execute()
      const last = await tx.db
        .selectFrom('install_secret')
        .select('version')
        .where('install_id', '=', install.id)
        .where('name', '=', params.name)
        .orderBy('version', 'desc')
        .executeTakeFirst()
      const version = (last?.version ?? 0) + 1
      // An older value that never arrived must not arrive after this one.
      await tx.db
        .deleteFrom('install_secret')
        .where('install_id', '=', install.id)
        .where('name', '=', params.name)
        .where('delivered_at', 'is', null)
        .execute()
      await tx.db
        .insertInto('install_secret')
        .values({
          install_id: install.id,
          name: params.name,
          version,
          ciphertext: Buffer.from(body.ciphertext, 'base64'),
          set_at: tx.at,
        })
        .execute()
      tx.audit(install.id, {
        actor: actorOf(caller),
        action: 'secret.set',
        subject: { type: 'secret', id: params.name },
        outcome: 'ok',
        manifestDigest: null,
        details: { version },
      })
      const agent = await tx.db
        .selectFrom('agent')
        .select('id')
        .where('install_id', '=', install.id)
        .where('status', '=', 'enrolled')
        .executeTakeFirst()
      if (agent) tx.nudge(`agent:${agent.id}`)
      return { name: params.name, version, delivered: false }
    })
  },
  'secrets.list': async ({ context, params }) => {
    const install = await findInstall(context.db, params.ref)
    const rows = await context.db
      .selectFrom('install_secret')
      .distinctOn('name')
      .select(['name', 'version', 'delivered_at', 'set_at'])
      .where('install_id', '=', install.id)
      .orderBy('name')
      .orderBy('version', 'desc')
      .execute()
    return {
      items: rows.map((row) => ({
        name: row.name,
        version: row.version,
        delivered: row.delivered_at !== null,
        setAt: row.set_at,
      })),
      next: null,
    }
  },
  'deploys.create': async ({ context, params, body, caller }) => {
    const install = await findInstall(context.db, params.ref)
    if (install.status === 'deprovisioned' || install.status === 'deprovisioning')
      throw new ApiFailure('wrong_state', `install ${install.name} is ${install.status}`)
    const runId = await transact(context, (tx) =>
      createRun(
        context,
        tx,
        install,
        (app) => {
          const all = app.components.map((c) => c.name)
          const unknown = (body.components ?? []).filter((name) => !all.includes(name))
          if (unknown.length > 0)
            throw new ApiFailure('not_found', `app ${app.name} has no component ${unknown.join(', ')}`)
          return { kind: 'deploy', components: body.components ?? all }
        },
        caller,
      ),
    )
    return (await runView(context.db, runId))!
  },
  'deploys.list': async ({ context, params, query }) => {
    const install = await findInstall(context.db, params.ref)
    const rows = await context.db
      .selectFrom('deploy')
      .selectAll()
      .where('install_id', '=', install.id)
      .$if(query.after !== undefined, (q) => q.where('id', '<', query.after!))
      .orderBy('id', 'desc')
      .limit(query.limit + 1)
      .execute()
    return pageOf(rows, query.limit, (row) => ({
      id: row.id,
      installId: row.install_id,
      component: row.component,
      buildId: row.build_id,
      artifact: row.artifact_digest,
      runId: row.run_id,
      status: row.status,
      createdAt: row.created_at,
      finishedAt: row.finished_at,
    }))
  },
} satisfies Partial<Handlers>

async function createInstall({ context, body, caller }: Call<'installs.create'>) {
  const app = await findApp(context.db, body.app)
  const { id, runId } = await transact(context, async (tx) => {
    const install = { id: context.newId('install'), app_id: app.id, sandbox_type: body.sandbox.type }
    const added = await tx.db
      .insertInto('install')
      .values({
        ...install,
        name: body.name,
        status: 'new',
        sandbox_config: JSON.stringify(body.sandbox.config),
        inputs: JSON.stringify(body.inputs),
        created_at: tx.at,
      })
      .onConflict((c) => c.column('name').doNothing())
      .returning('id')
      .executeTakeFirst()
    if (!added)
      throw new ApiFailure('name_taken', `an install named ${body.name} exists already`, {
        remedy: 'Choose another name.',
      })
    tx.audit(install.id, {
      actor: actorOf(caller),
      action: 'install.created',
      subject: { type: 'install', id: install.id },
      outcome: 'ok',
      manifestDigest: null,
      details: { name: body.name, app: app.name, sandbox: body.sandbox.type },
    })
    return {
      id: install.id,
      runId: await createRun(context, tx, install, () => ({ kind: 'provision' }), caller),
    }
  })
  return { install: await installView(context.db, id), run: (await runView(context.db, runId)) ?? null }
}

export async function findInstall(db: Db, ref: string) {
  const row = await db
    .selectFrom('install')
    .selectAll()
    .where((eb) => eb.or([eb('name', '=', ref), eb('id', '=', ref)]))
    .executeTakeFirst()
  if (!row) throw notFound('install', ref)
  return row
}

async function installView(db: Db, id: string) {
  const row = await db
    .selectFrom('install')
    .innerJoin('app', 'app.id', 'install.app_id')
    .selectAll('install')
    .select('app.name as app')
    .where('install.id', '=', id)
    .executeTakeFirstOrThrow()
  const agent = await db
    .selectFrom('agent')
    .selectAll()
    .where('install_id', '=', id)
    .where('status', '=', 'enrolled')
    .executeTakeFirst()
  const components = await db
    .selectFrom('install_component')
    .selectAll()
    .where('install_id', '=', id)
    .orderBy('component')
    .execute()
  const run = await db
    .selectFrom('run')
    .select('id')
    .where('install_id', '=', id)
    .where('status', '=', 'active')
    .executeTakeFirst()
  return {
    id: row.id,
    name: row.name,
    app: row.app,
    sandbox: row.sandbox_type,
    status: row.status,
    agent: agent
      ? {
          id: agent.id,
          connected: agent.session_id !== null,
          lastSeenAt: agent.last_seen_at,
          version: agent.version,
        }
      : null,
    components: components.map((c) => ({
      name: c.component,
      status: c.status,
      artifact: c.artifact_digest,
      deployedAt: c.deployed_at,
      outputs: c.outputs,
    })),
    activeRun: run?.id ?? null,
    inputs: row.inputs,
    createdAt: row.created_at,
  }
}
