import { chmod, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { lentFile } from '../build/lent.ts'
import { findTool, runTool, toolMissing } from '../build/run-tool.ts'
import type { OperationContext } from '../sdk/plugin.ts'
import { runDocker, whyNotDocker } from './docker.ts'

export interface Builder {
  name: 'buildah' | 'podman' | 'docker'
  program: string
}

export interface ImageBuild {
  folder: string
  file: string
  target: string
  args: Record<string, string | number | boolean>
}

const IMAGE = 'localhost/tenon-build:latest'

/** The first that this job has and can use. Buildah and podman need no engine, so they come first. */
export async function findBuilder(context: OperationContext): Promise<Builder> {
  for (const name of ['buildah', 'podman'] as const) {
    const program = await findTool(context, name)
    if (program !== undefined) return { name, program }
  }
  const docker = await findTool(context, 'docker')
  const problem = docker === undefined ? undefined : await whyNotDocker(context, docker)
  if (docker !== undefined && problem === undefined) return { name: 'docker', program: docker }
  if (problem !== undefined) context.log(problem)
  throw toolMissing('Building an image', 'buildah, podman or docker with BuildKit')
}

/** Builds inside the job's own folder and leaves the image there as an OCI layout; its store is gone afterwards. */
export async function runBuilder(
  context: OperationContext,
  builder: Builder,
  build: ImageBuild,
): Promise<string> {
  if (builder.name === 'docker') return runDocker(context, builder.program, build)
  const work = join(context.workDir, 'builder')
  const layout = join(context.workDir, 'layout')
  await mkdir(work)
  const isRoot = await hasAdmin()
  const setting = await prepare(context, work, isRoot)
  const [program = builder.program, ...before] = await wrapped(context, isRoot, builder.program)
  const run = (args: string[]) =>
    runTool(context, {
      program,
      name: `${builder.name} ${args[0] ?? ''}`,
      args: [...before, ...args],
      cwd: work,
      env: setting.env,
      // The job's own limit is the limit: nobody knows better how long a Dockerfile takes.
      timeoutMs: context.manifest.limits.timeoutSeconds * 1000,
      isLogged: true,
    })
  context.log(`building with ${builder.name}${isRoot ? '' : ', as root of a namespace of its own'}`)
  try {
    await run(buildArguments(build, setting.authfile, setting.policy))
    await run(['push', '--quiet', '--signature-policy', setting.policy, IMAGE, `oci:${layout}:latest`])
  } finally {
    await removeTree(work)
  }
  return layout
}

/** Pure. Every time in the image is the same, and each build starts from nothing. */
export function buildArguments(build: ImageBuild, authfile: string | undefined, policy: string): string[] {
  const values = Object.entries(build.args).toSorted(([a], [b]) => (a < b ? -1 : 1))
  return [
    'build',
    '--isolation=chroot',
    '--timestamp=0',
    '--format=oci',
    '--layers=false',
    '--signature-policy',
    policy,
    ...(authfile === undefined ? [] : ['--authfile', authfile]),
    ...values.flatMap(([name, value]) => ['--build-arg', `${name}=${value}`]),
    ...(build.target === '' ? [] : ['--target', build.target]),
    '--file',
    build.file,
    '--tag',
    IMAGE,
    build.folder,
  ]
}

/** In a mount namespace of its own, so that no mount outlives the build; without rights, as root of a user namespace. */
async function wrapped(context: OperationContext, isRoot: boolean, program: string): Promise<string[]> {
  const unshare = await findTool(context, 'unshare')
  if (unshare === undefined) return [program]
  return [unshare, ...(isRoot ? [] : ['--user', '--map-root-user']), '--mount', '--', program]
}

/** Everything that the builders read and write lies in one folder; nothing of the machine's own settings counts. */
async function prepare(context: OperationContext, work: string, isRoot: boolean): Promise<Setting> {
  const home = join(work, 'home')
  await mkdir(home)
  const put = async (name: string, lines: string[]) => {
    await writeFile(join(work, name), `${lines.join('\n')}\n`)
    return join(work, name)
  }
  const policy = await put('policy.json', ['{"default":[{"type":"insecureAcceptAnything"}]}'])
  const registries = await put('registries.conf', [
    'unqualified-search-registries = ["docker.io"]',
    'short-name-mode = "permissive"',
  ])
  const storage = await put('storage.conf', [
    '[storage]',
    'driver = "vfs"',
    `graphroot = ${JSON.stringify(join(work, 'root'))}`,
    `runroot = ${JSON.stringify(join(work, 'run'))}`,
    // Root of a namespace with one user cannot give files to others.
    ...(isRoot ? [] : ['[storage.options.vfs]', 'ignore_chown_errors = "true"']),
  ])
  const engine = await put('containers.conf', [
    '[engine]',
    'cgroup_manager = "cgroupfs"',
    'events_logger = "none"',
  ])
  const env = {
    HOME: home,
    TMPDIR: home,
    XDG_RUNTIME_DIR: home,
    CONTAINERS_REGISTRIES_CONF: registries,
    CONTAINERS_CONF: engine,
    CONTAINERS_STORAGE_CONF: storage,
    SOURCE_DATE_EPOCH: '0',
  }
  return { env, policy, authfile: await lentFile(context, 'registries.json') }
}

/** A store holds folders that even their owner may not write; without rights of root they have to be opened first. */
async function removeTree(folder: string): Promise<void> {
  const open = async (path: string): Promise<void> => {
    await chmod(path, 0o700)
    for (const entry of await readdir(path, { withFileTypes: true })) {
      if (entry.isDirectory()) await open(join(path, entry.name))
    }
  }
  await open(folder)
  await rm(folder, { recursive: true, force: true })
}

const CAP_SYS_ADMIN = 21n

async function hasAdmin(): Promise<boolean> {
  const status = await readFile('/proc/self/status', 'utf8').catch(() => '')
  const rights = BigInt(`0x${/^CapEff:\s*([0-9a-f]+)$/m.exec(status)?.[1] ?? '0'}`)
  return ((rights >> CAP_SYS_ADMIN) & 1n) === 1n
}

interface Setting {
  env: Record<string, string>
  policy: string
  authfile: string | undefined
}
