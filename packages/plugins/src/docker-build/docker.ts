import { randomUUID } from 'node:crypto'
import { copyFile, mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { lentFile } from '../build/lent.ts'
import { endOf, runTool } from '../build/run-tool.ts'
import type { OperationContext } from '../sdk/plugin.ts'
import { layoutOfArchive } from './docker-archive.ts'
import type { ImageBuild } from './builder.ts'

const FIRST_WITHOUT_BUILDKIT = 23
const ASK_MS = 30_000

/** Why this docker cannot build; undefined when it can. BuildKit is in its client up to 22, later a part of its own. */
export async function whyNotDocker(context: OperationContext, program: string): Promise<string | undefined> {
  const env = await dockerEnv(context)
  const ask = (...args: string[]) =>
    endOf(context, { program, args, cwd: context.workDir, env, timeoutMs: ASK_MS })
  const versions = await ask('version', '--format', '{{.Client.Version}} {{.Server.Version}}')
  if (versions.code !== 0) return 'docker is installed, but its engine does not answer'
  const isPlain = Number.parseInt(versions.stdout, 10) < FIRST_WITHOUT_BUILDKIT
  if (isPlain || (await ask('buildx', 'version')).code === 0) return undefined
  return 'docker is installed, but without buildx it has no BuildKit'
}

/** Builds in the engine that docker speaks to and brings the image here; the engine keeps only its cache. */
export async function runDocker(
  context: OperationContext,
  program: string,
  build: ImageBuild,
): Promise<string> {
  const work = join(context.workDir, 'builder')
  const layout = join(context.workDir, 'layout')
  const archive = join(work, 'image.tar')
  // Two builds of one engine must not take each other's image.
  const image = `tenon-build:${randomUUID()}`
  const startedAt = Math.floor((Date.now() - process.uptime() * 1000) / 1000)
  await mkdir(work)
  const config = await dockerConfig(context, work)
  const env = { ...(await dockerEnv(context)), HOME: work, DOCKER_CONFIG: config }
  const timeoutMs = context.manifest.limits.timeoutSeconds * 1000
  const run = (args: string[], isLogged: boolean) =>
    runTool(context, { program, args, name: `docker ${args[0] ?? ''}`, cwd: work, env, timeoutMs, isLogged })
  context.log("building with docker's BuildKit")
  try {
    await run(dockerArguments(build, image), true)
    await run(['save', '--output', archive, image], false)
    await layoutOfArchive(archive, layout, startedAt)
  } finally {
    // There is none after a build that failed.
    await endOf(
      { ...context, signal: new AbortController().signal },
      { program, args: ['image', 'rm', '--force', image], cwd: work, env, timeoutMs: ASK_MS },
    ).catch(() => undefined)
    await rm(work, { recursive: true, force: true })
  }
  return layout
}

/** An engine that the vendor lent, or the one of this machine. */
async function dockerEnv(context: OperationContext): Promise<Record<string, string>> {
  const socket = await lentFile(context, 'docker.sock')
  return { DOCKER_BUILDKIT: '1', ...(socket === undefined ? {} : { DOCKER_HOST: `unix://${socket}` }) }
}

/** Pure. Nothing of an earlier build is taken over. */
export function dockerArguments(build: ImageBuild, image: string): string[] {
  const values = Object.entries(build.args).toSorted(([a], [b]) => (a < b ? -1 : 1))
  return [
    'build',
    '--no-cache',
    '--progress=plain',
    ...values.flatMap(([name, value]) => ['--build-arg', `${name}=${value}`]),
    ...(build.target === '' ? [] : ['--target', build.target]),
    '--file',
    build.file,
    '--tag',
    image,
    build.folder,
  ]
}

/** Only what the vendor lent; nothing of the machine's own logins counts. */
async function dockerConfig(context: OperationContext, work: string): Promise<string> {
  const folder = join(work, 'config')
  await mkdir(folder)
  const lent = await lentFile(context, 'registries.json')
  if (lent !== undefined) await copyFile(lent, join(folder, 'config.json'))
  return folder
}
