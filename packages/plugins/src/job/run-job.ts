import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Json, JobManifest, ManifestOperation } from '@tenon/core'
import type { RegistryClient } from '@tenon/oci'
import { jobOutputs, jobResult, type JobContext, type JobResult } from '@tenon/protocol'
import { renderOperation } from '../deploy/render.ts'
import { attest } from '../sdk/attest.ts'
import { asPluginError, canceled, errorLine, isFinal, PluginError } from '../sdk/errors.ts'
import { createJobApi, type JobApi, type JobApiOptions } from '../sdk/job-api.ts'
import type { Dial, OperationContext, OperationResult } from '../sdk/plugin.ts'
import { pullFolder } from '../sdk/pull-folder.ts'
import { openRegistry } from '../sdk/registry.ts'
import { killAfterMs } from '../sdk/shell.ts'
import type { JobConfig } from './config.ts'
import { loadPlugin } from './load-plugin.ts'

export interface JobRun extends Omit<JobConfig, 'network' | 'extraCa'> {
  workDir: string
  log: (line: string) => void
  signal: AbortSignal
  now: () => number
  dial?: Dial
  /** How long an absent agent is waited for. */
  patienceMs?: number
}

/** How long a job that was told to stop still tries to say so. */
const LAST_WORDS_MS = 5000

/** Does the manifest's operations in order; the first that fails ends the job. True when all went well. */
export async function runJob(run: JobRun): Promise<boolean> {
  const result = await workThrough(run).catch((error: unknown): JobResult => {
    const known = run.signal.aborted ? canceled(error) : asPluginError(error)
    run.log(errorLine(known))
    const data = { code: known.code, ...(isFinal(known.code) ? { final: true } : {}) }
    return { ok: false, message: `${known.message} ${known.remedy}`, data }
  })
  // Not bound to the signal: that the job was stopped is a result too.
  const patience = run.signal.aborted ? LAST_WORDS_MS : run.patienceMs
  const api = createJobApi({ ...address(run), ...(patience === undefined ? {} : { patienceMs: patience }) })
  try {
    await api.putResult(result)
  } catch (error) {
    run.log(errorLine(error))
    return false
  }
  return result.ok
}

async function workThrough(run: JobRun): Promise<JobResult> {
  const api = createJobApi({
    ...address(run),
    signal: run.signal,
    ...(run.patienceMs === undefined ? {} : { patienceMs: run.patienceMs }),
  })
  const manifest = await api.manifest()
  const job = await api.context()
  const registry = onceOpened(() =>
    openRegistry({ api, signal: run.signal, now: run.now, baseEnv: run.baseEnv }, job.registry),
  )
  const done: { operation: ManifestOperation; result: OperationResult }[] = []
  for (const [index, operation] of manifest.operations.entries()) {
    const workDir = join(run.workDir, `operation-${index + 1}`)
    await mkdir(workDir, { recursive: true, mode: 0o700 })
    const context = contextOf({ run, api, manifest, job, registry, operation, workDir })
    const result = await runOperation(context, registry)
    // In one place, for every build: plugins, a vendor's own included, know nothing of signatures.
    if (operation.operation === 'build') await attest(context, await registry(), result)
    if (result.outputs !== undefined) await api.putOutputs(operation.component, result.outputs)
    done.push({ operation, result })
    run.log(`${operation.operation} ${result.ok ? 'succeeded' : 'failed'}: ${result.message}`)
    if (!result.ok) break
  }
  return summarize(done)
}

async function runOperation(context: OperationContext, registry: OpenRegistry): Promise<OperationResult> {
  const { operation } = context
  const { name, digest } = operation.plugin
  context.log(`${operation.operation} by plugin ${name}${digest === null ? '' : `@${digest}`}`)
  const plugin = await loadPlugin(context, registry)
  const perform = plugin.operations[operation.operation]
  if (!perform) {
    const message = `The plugin ${name} has no operation ${operation.operation}.`
    throw new PluginError('operation_unsupported', message, 'Use a version of the plugin that has it.')
  }
  const checked = operationResult.safeParse(await Promise.race([perform(context), stopped(context)]))
  if (checked.success) return checked.data as OperationResult
  const fields = checked.error.issues.slice(0, 3).map((issue) => issue.path.join('.') || 'all of it')
  const message = `The plugin ${name} gave a result that does not fit the contract (${fields.join(', ')}).`
  throw new PluginError(
    'plugin_failed',
    message,
    'Return ok, message and data, and outputs where there are any.',
  )
}

/** A plugin is somebody else's code: what it returns is checked like anything else from outside. */
const operationResult = jobResult.extend({ outputs: jobOutputs.optional() })

/** A plugin that does not heed the signal must not keep the job from ending in time. */
function stopped({ signal, manifest }: OperationContext): Promise<never> {
  return new Promise((_resolve, reject) => {
    const giveUp = () => setTimeout(() => reject(canceled()), killAfterMs(manifest.limits.graceSeconds) + 250)
    if (signal.aborted) giveUp()
    else signal.addEventListener('abort', giveUp, { once: true })
  })
}

/** One operation: its own facts. Several: the facts of each, in order. */
export function summarize(done: { operation: ManifestOperation; result: OperationResult }[]): JobResult {
  const last = done.at(-1)?.result
  if (last === undefined) return { ok: false, message: 'Nothing was done.', data: {} }
  const { ok, message } = last
  if (done.length === 1) return { ok, message, data: last.data }
  const operations = done.map(({ operation, result }): { [key: string]: Json } => ({
    operation: operation.operation,
    component: operation.component,
    ok: result.ok,
    data: result.data,
  }))
  return { ok, message, data: { operations } }
}

function contextOf(parts: ContextParts): OperationContext {
  const { run, api, manifest, job, operation, workDir } = parts
  const pulled = new Map<string, Promise<string>>()
  const context: OperationContext = {
    manifest,
    operation,
    job,
    api,
    log: run.log,
    workDir,
    baseEnv: run.baseEnv,
    signal: run.signal,
    ...(run.dial ? { dial: run.dial } : {}),
    artifact: (name, options = {}) => {
      const known = pulled.get(name)
      if (known) return known
      const folder = pullArtifact(parts, name, join(workDir, 'artifacts', String(pulled.size + 1)), options)
      pulled.set(name, folder)
      return folder
    },
    rendered: async () => (await renderOperation(context)).component,
  }
  return context
}

async function pullArtifact(
  { run, registry, operation }: ContextParts,
  name: string,
  folder: string,
  options: { artifactType?: string },
): Promise<string> {
  const artifact = operation.artifacts.find((each) => each.name === name)
  if (!artifact) {
    const message = `The manifest names no artifact ${name} for ${operation.operation}.`
    throw new PluginError('artifact_missing', message, 'Build the component, then deploy that build.')
  }
  const { repository, digest } = artifact
  const source = { client: await registry(), repository, digest, signal: run.signal, ...options }
  await pullFolder(operation.operation === 'build' ? { ...source, links: 'inside' } : source, folder)
  return folder
}

function onceOpened(open: () => Promise<RegistryClient>): OpenRegistry {
  let opened: Promise<RegistryClient> | undefined
  return () => (opened ??= open())
}

function address(run: JobRun): Pick<JobApiOptions, 'socketPath' | 'secure' | 'token' | 'now'> {
  const { socketPath, secure, token, now } = run
  return { socketPath, token, now, ...(secure ? { secure } : {}) }
}

export type OpenRegistry = () => Promise<RegistryClient>

interface ContextParts {
  run: JobRun
  api: JobApi
  manifest: JobManifest
  job: JobContext
  registry: OpenRegistry
  operation: ManifestOperation
  workDir: string
}
