import { sizeWords } from '@tenon/core'
import type { IncomingMessage } from 'node:http'
import { flatManifest, type JobManifest } from '@tenon/core'
import { attestationRequest, jobOutputs, jobProgress, jobResult, partName } from '@tenon/protocol'
import type { z } from 'zod'
import type { ReportedOutputs } from '../journal/journal-state.ts'
import { JobApiError, readBody } from './answer.ts'
import { componentOf, type Call, type JobAccess, type Route } from './route.ts'
import { serviceRoutes } from './service-routes.ts'
import { terraformRoutes } from './terraform-routes.ts'

/** A report travels in one frame of at most 1 MiB: what goes into it is bounded where it comes in. */
const MAX_REPORTED_BYTES = 262_144
/** The job's client gives up on a context sooner than on a credential. */
const CONTEXT_WAIT_MS = 25_000
const CREDENTIAL_WAIT_MS = 50_000

/** One whose form only another version of the agent knows goes to its job as it was signed. */
function manifestAsRead(text: string): unknown {
  const signed: unknown = JSON.parse(text)
  return flatManifest(signed) ?? signed
}

const routes: Route[] = [
  {
    method: 'GET',
    path: /^\/v1\/manifest$/,
    handle: async ({ access }) => manifestAsRead(access.manifestText),
  },
  { method: 'GET', path: /^\/v1\/context$/, handle: ({ access }) => access.context(CONTEXT_WAIT_MS) },
  { method: 'GET', path: /^\/v1\/secrets\/([^/]+)$/, handle: getSecret },
  { method: 'GET', path: /^\/v1\/outputs\/([^/]+)$/, handle: getOutputs },
  {
    method: 'POST',
    path: /^\/v1\/credentials\/registry$/,
    handle: ({ access }) => access.credential('registry', CREDENTIAL_WAIT_MS),
  },
  { method: 'POST', path: /^\/v1\/credentials\/join-token$/, handle: postJoinToken },
  { method: 'POST', path: /^\/v1\/attestations$/, handle: postAttestation },
  { method: 'PUT', path: /^\/v1\/progress$/, handle: putProgress },
  { method: 'PUT', path: /^\/v1\/outputs$/, handle: putOutputs },
  { method: 'PUT', path: /^\/v1\/result$/, handle: putResult },
  ...terraformRoutes,
  ...serviceRoutes,
]

/** Finds the route and does it; the answer's body is what it returns. */
export async function callRoute(access: JobAccess, request: IncomingMessage): Promise<unknown> {
  const url = new URL(request.url ?? '/', 'http://job')
  const matching = routes.filter((route) => route.path.test(url.pathname))
  if (matching.length === 0) {
    throw new JobApiError(
      'unknown_route',
      `There is no ${url.pathname} here.`,
      'See protocol/src/job-api.ts.',
    )
  }
  const route = matching.find((candidate) => candidate.method === request.method)
  if (!route) {
    throw new JobApiError(
      'method_not_allowed',
      `${url.pathname} does not take ${request.method}.`,
      `Use ${matching.map((candidate) => candidate.method).join(' or ')}.`,
    )
  }
  const argument = decodePart(route.path.exec(url.pathname)?.[1] ?? '')
  return (await route.handle({ access, request, argument, query: url.searchParams })) ?? {}
}

async function getSecret({ access, argument }: Call): Promise<unknown> {
  const secretName = checkedName(argument)
  requireNamed(access.manifest, 'secrets', secretName, 'secret')
  const value = await access.secret(secretName)
  if (value === undefined) {
    throw new JobApiError(
      'not_found',
      `The install has no secret ${secretName}.`,
      `Set it with \`tenon installs secrets set\` or, in the install, \`tenon agent secret set\`; then retry.`,
    )
  }
  return { name: secretName, value }
}

async function getOutputs({ access, argument }: Call): Promise<unknown> {
  const component = checkedName(argument)
  if (!access.manifest.operations.some((operation) => operation.component === component)) {
    requireNamed(access.manifest, 'dependencies', component, 'component')
  }
  const outputs = await access.outputsOf(component)
  if (!outputs) {
    throw new JobApiError('not_found', `The component ${component} has no outputs yet.`, 'Deploy it first.')
  }
  return outputs
}

/** A job gets what its signed manifest names, and nothing else of the install. */
function requireNamed(
  manifest: JobManifest,
  list: 'secrets' | 'dependencies',
  wanted: string,
  what: string,
): void {
  const named = manifest.operations.some(({ config }) => {
    const names = config[list]
    return Array.isArray(names) && names.includes(wanted)
  })
  if (named) return
  const message = `This job's manifest does not name the ${what} ${wanted}.`
  throw new JobApiError('forbidden', message, `List it under \`${list}\` of the component.`)
}

async function postJoinToken({ access }: Call): Promise<unknown> {
  if (access.manifest.kind !== 'sandbox') {
    throw new JobApiError('forbidden', 'Only a sandbox job may have a join token.', 'Do without it.')
  }
  return access.credential('join-token', CREDENTIAL_WAIT_MS)
}

async function postAttestation({ access, request }: Call): Promise<unknown> {
  if (access.manifest.kind !== 'build') {
    throw new JobApiError('forbidden', 'Only what a build job made is signed.', 'Do without it.')
  }
  return access.credential('attestation', CREDENTIAL_WAIT_MS, await readBody(request, attestationRequest))
}

async function putProgress({ access, request }: Call): Promise<void> {
  access.progress(await readBody(request, jobProgress, access.masked))
}

/** Whole into the install store; into the report only the names of the sensitive ones. */
async function putOutputs({ access, request, query }: Call): Promise<void> {
  const outputs = await readBody(request, jobOutputs)
  const component = componentOf(access.manifest, query.get('component'))
  const reported = withoutSensitiveValues(outputs)
  checkSize(reported, 'The outputs')
  await access.keepOutputs(component, outputs)
  await access.report(reported)
}

async function putResult({ access, request }: Call): Promise<void> {
  const result = await readBody(request, jobResult, access.masked)
  checkSize(result.data, 'The data of the result')
  await access.result(result)
}

/** Pure. */
export function withoutSensitiveValues(outputs: z.infer<typeof jobOutputs>): ReportedOutputs {
  return Object.fromEntries(
    Object.entries(outputs).map(([key, output]) => [key, output.sensitive ? { sensitive: true } : output]),
  )
}

function checkSize(value: unknown, what: string): void {
  const bytes = Buffer.byteLength(JSON.stringify(value))
  if (bytes <= MAX_REPORTED_BYTES) return
  const message = `${what}: ${sizeWords(bytes)}, and at most ${sizeWords(MAX_REPORTED_BYTES)} go into a report.`
  throw new JobApiError('too_large', message, 'Keep large values in the install and report where they are.')
}

function checkedName(value: string): string {
  const parsed = partName.safeParse(value)
  if (parsed.success) return parsed.data
  throw new JobApiError('bad_request', `The name ${parsed.error.issues[0]?.message}.`, 'Use a valid name.')
}

function decodePart(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch (cause) {
    throw new JobApiError('bad_request', 'The path is not encoded well.', 'Use percent encoding.', { cause })
  }
}
