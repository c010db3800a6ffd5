import { existsSync } from 'node:fs'
import type { Logger } from 'pino'
import { watchChanges } from '../changes.ts'
import { RuntimeError } from '../runtime.ts'
import type { JobSpec } from '../runtime.ts'
import { parseStatus } from '../wrapper.ts'
import { hasEnded } from './container-end.ts'
import { buildContainer } from './container-spec.ts'
import type { Engine, EngineImage } from './engine.ts'
import { createJobFolder, isJobId, readStatus } from './job-folder.ts'
import type { JobFolder, JobRecord } from './job-folder.ts'
import type { Host } from './host.ts'
import type { RegistryAuth } from './pull-image.ts'

const READY_MILLISECONDS = 60_000
const POLL_MILLISECONDS = 250
const ENV_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/

export interface ImageContext {
  engine: Engine
  registryAuth: ((image: string) => Promise<RegistryAuth | undefined>) | undefined
  log: Logger
}

export interface StartContext extends ImageContext {
  host: Host
  image: string
  agentKey: string
  workBytes: number | undefined
  now(): number
}

/** Starts a job whose folder and container do not exist yet. The caller removes what is left when it throws. */
export async function startContainer(
  context: StartContext,
  folder: JobFolder,
  name: string,
  spec: JobSpec,
): Promise<JobRecord> {
  checkSpec(spec)
  checkMounts(spec)
  const { engine, host, agentKey, workBytes } = context
  const image = await haveImage(context, spec.image ?? context.image)
  if (spec.command.length === 0 && image.command.length === 0) {
    throw new RuntimeError('image', `The image ${spec.image ?? context.image} names no program to run.`)
  }
  const { jobId, fence, limits } = spec
  const { timeoutSeconds, graceSeconds } = limits
  const startedAt = context.now()
  const record = { jobId, fence, confinement: host.confinement, startedAt, timeoutSeconds, graceSeconds }
  const worksOnDisk = workBytes === undefined
  await createJobFolder(folder, { record, files: spec.files, worksOnDisk, owner: host.owner })
  const { user, hasSelinux } = host
  await engine.create(name, buildContainer({ spec, image, folder, agentKey, user, workBytes, hasSelinux }))
  await engine.start(name)
  await untilReady(engine, folder, name)
  return record
}

function checkSpec(spec: JobSpec): void {
  const texts = [...spec.command, ...Object.values(spec.env), ...spec.mounts.map((mount) => mount.path)]
  const badName = Object.keys(spec.env).find((name) => !ENV_NAME.test(name))
  const faults = [
    isJobId(spec.jobId) ? undefined : `The job id ${JSON.stringify(spec.jobId)} cannot name a container.`,
    badName === undefined ? undefined : `${JSON.stringify(badName)} is no name of an environment variable.`,
    texts.some((text) => text.includes('\0'))
      ? 'The command, environment or a mount holds a NUL byte.'
      : undefined,
  ]
  const fault = faults.find((found) => found !== undefined)
  if (fault !== undefined) throw new RuntimeError('start', fault)
}

/** Podman would make a folder that is not there, on the host. */
function checkMounts({ mounts }: JobSpec): void {
  const missing = mounts.find((mount) => !existsSync(mount.path))
  if (missing === undefined) return
  throw new RuntimeError('start', `${missing.path}, which the job shall see, is not there.`)
}

/** An image is named by digest or id, so the engine's own copy is always the right one. */
export async function haveImage(context: ImageContext, reference: string): Promise<EngineImage> {
  const { engine, registryAuth, log } = context
  const present = await engine.image(reference)
  if (present !== undefined) return present
  log.info({ image: reference }, 'the engine pulls an image')
  try {
    await engine.pull(reference, await registryAuth?.(reference))
  } catch (cause) {
    throw new RuntimeError('image', `The image ${reference} cannot be had: ${(cause as Error).message}`, {
      cause,
    })
  }
  const pulled = await engine.image(reference)
  if (pulled === undefined) throw new RuntimeError('image', `The engine did not keep the image ${reference}.`)
  return pulled
}

/** The wrapper says `ready` once the program is there to be run. */
async function untilReady(engine: Engine, folder: JobFolder, name: string): Promise<void> {
  const patience = AbortSignal.timeout(READY_MILLISECONDS)
  const changes = watchChanges([folder.run], POLL_MILLISECONDS, patience)
  try {
    for (;;) {
      const status = parseStatus(await readStatus(folder))
      if (status.isReady) return
      if (status.refused !== undefined) throw new RuntimeError('start', status.refused)
      if (patience.aborted) throw new RuntimeError('start', 'The job did not come up within a minute.')
      await changes.next()
      const container = await engine.inspect(name)
      if (container === undefined || hasEnded(container)) return await endedEarly(folder, container?.error)
    }
  } finally {
    changes.close()
  }
}

async function endedEarly(folder: JobFolder, error: string | undefined): Promise<void> {
  const status = parseStatus(await readStatus(folder))
  if (status.isReady) return
  const why = status.refused ?? error
  throw new RuntimeError('start', why || 'The container ended before its program was started.')
}
