import { createHash } from 'node:crypto'
import { digest, MAX_PLAN_BYTES, MAX_STATE_BYTES, stateLock, type StateLock } from '@tenon/protocol'
import { JobApiError, parseBody, RawAnswer, readBytes } from './answer.ts'
import { componentOf, type Call, type Route, type TerraformAccess } from './route.ts'

const MAX_LOCK_BYTES = 65_536
const STATE = /^\/v1\/terraform\/([^/]+)$/

/** What Terraform's `http` backend asks for, and saved plans. */
export const terraformRoutes: Route[] = [
  { method: 'GET', path: STATE, handle: getState },
  { method: 'POST', path: STATE, handle: postState },
  { method: 'DELETE', path: STATE, handle: deleteState },
  { method: 'LOCK', path: STATE, handle: lockState },
  { method: 'UNLOCK', path: STATE, handle: unlockState },
  { method: 'PUT', path: /^\/v1\/plans$/, handle: putPlan },
  { method: 'GET', path: /^\/v1\/plans\/([^/]+)$/, handle: getPlan },
]

async function getState(call: Call): Promise<RawAnswer> {
  const { terraform, component } = placeOf(call)
  const state = await terraform.read(component)
  return state ? new RawAnswer(200, state) : new RawAnswer(404)
}

async function postState(call: Call): Promise<RawAnswer> {
  const { terraform, component } = placeOf(call)
  const bytes = await readBytes(call.request, MAX_STATE_BYTES)
  checkMd5(call, bytes)
  // Nothing may come between this look and the write: the store does what it is asked in that order.
  const refused = whyNotHeld(terraform, component, call.query.get('ID'))
  if (refused) return refused
  await terraform.write(component, bytes)
  return new RawAnswer(200)
}

/** Terraform names no lock here, so any lock of this job will do. */
async function deleteState(call: Call): Promise<RawAnswer> {
  const { terraform, component } = placeOf(call)
  const refused = whyNotHeld(terraform, component, terraform.holder(component)?.lock.ID ?? null)
  if (refused) return refused
  await terraform.remove(component)
  return new RawAnswer(200)
}

/** The same lock again is no conflict: the first answer may not have been heard. */
async function lockState(call: Call): Promise<RawAnswer> {
  const { terraform, component } = placeOf(call)
  const body = await readBytes(call.request, MAX_LOCK_BYTES)
  checkMd5(call, body)
  const wanted = parseBody(body, stateLock)
  const holder = terraform.holder(component)
  if (holder && !(holder.isThisJob && holder.lock.ID === wanted.ID)) return lockedBy(holder)
  await terraform.lock(component, wanted)
  return new RawAnswer(200)
}

/** Without an id it is `terraform force-unlock`, which a job may do to its own lock only. */
async function unlockState(call: Call): Promise<RawAnswer> {
  const { terraform, component } = placeOf(call)
  const body = await readBytes(call.request, MAX_LOCK_BYTES)
  const named = call.query.get('ID') ?? (body.byteLength > 0 ? parseBody(body, stateLock).ID : null)
  const holder = terraform.holder(component)
  if (!holder) return new RawAnswer(200)
  if (!holder.isThisJob || (named !== null && named !== holder.lock.ID)) return lockedBy(holder)
  await terraform.unlock(component)
  return new RawAnswer(200)
}

async function putPlan(call: Call): Promise<unknown> {
  const component = componentOf(call.access.manifest, call.query.get('component'))
  if (component === undefined) throw noComponent()
  const bytes = await readBytes(call.request, MAX_PLAN_BYTES)
  return { digest: await terraformOf(call).keepPlan(component, bytes) }
}

async function getPlan(call: Call): Promise<RawAnswer> {
  const terraform = terraformOf(call)
  const wanted = digest.safeParse(call.argument)
  if (!wanted.success) {
    throw new JobApiError(
      'bad_request',
      'A plan is named by its digest.',
      'Ask for sha256: and 64 hex digits.',
    )
  }
  const { operations } = call.access.manifest
  if (
    !terraform.hasSaved(wanted.data) &&
    !operations.some(({ approvedPlan }) => approvedPlan === wanted.data)
  ) {
    const message = `This job's manifest does not approve the plan ${wanted.data}.`
    throw new JobApiError('forbidden', message, 'Approve the plan, and apply it in the job made for that.')
  }
  for (const { component } of operations) {
    const plan = component === null ? undefined : await terraform.plan(component, wanted.data)
    if (plan) return new RawAnswer(200, plan, 'application/octet-stream')
  }
  throw new JobApiError(
    'not_found',
    `The plan ${wanted.data} is not kept any more.`,
    'Make a new plan and approve that one.',
  )
}

function placeOf(call: Call): { terraform: TerraformAccess; component: string } {
  const component = componentOf(call.access.manifest, call.argument)
  if (component === undefined) throw noComponent()
  return { terraform: terraformOf(call), component }
}

function terraformOf({ access }: Call): TerraformAccess {
  if (access.terraform) return access.terraform
  throw new JobApiError(
    'forbidden',
    'This agent has no install, so it keeps no state and no plans.',
    'Use state in jobs of an install only.',
  )
}

/** A write needs the very lock it names, held by this job. */
function whyNotHeld(terraform: TerraformAccess, component: string, id: string | null): RawAnswer | undefined {
  const holder = terraform.holder(component)
  if (holder?.isThisJob && holder.lock.ID === id) return undefined
  if (holder) return lockedBy(holder)
  throw new JobApiError(
    'conflict',
    `This job does not hold the lock on the state of ${component}.`,
    'Lock the state first; do not use `-lock=false`.',
  )
}

function lockedBy({ jobId, lock }: { jobId: string; lock: StateLock }): RawAnswer {
  const info = lock.Info === '' ? `held by the job ${jobId}` : lock.Info
  return new RawAnswer(423, Buffer.from(JSON.stringify({ ...lock, Info: info })))
}

function checkMd5({ request }: Call, bytes: Buffer): void {
  const sent = request.headers['content-md5']
  if (sent === undefined || sent === createHash('md5').update(bytes).digest('base64')) return
  throw new JobApiError('bad_request', 'The body is not the one its Content-MD5 names.', 'Send it again.')
}

function noComponent(): JobApiError {
  return new JobApiError(
    'forbidden',
    "This job's manifest names no component.",
    'Use state and plans in jobs of a component.',
  )
}
