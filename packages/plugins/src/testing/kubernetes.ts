import { execFile } from 'node:child_process'
import { copyFileSync, existsSync } from 'node:fs'
import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { gunzipSync } from 'node:zlib'
import { packFolder, pushArtifact, sha256Digest, type Digest } from '@tenon/oci'
import type { TestRegistry, JobWorld } from './job-world.ts'

const run = promisify(execFile)
const TOOLS = process.env['TENON_TEST_TOOLS'] ?? join(homedir(), '.cache/tenon-tools/bin')
const BUSYBOX = '/bin/busybox'

/** Why nothing can be tried on a real cluster here; undefined when all of it is at hand. */
export function whyNoCluster(...tools: string[]): string | undefined {
  const kubeconfig = process.env['KUBECONFIG']
  if (!kubeconfig) return process.env['TENON_KUBERNETES_ABSENT'] ?? 'KUBECONFIG is not set'
  const missing = [...tools, 'kubectl'].filter((tool) => !existsSync(join(TOOLS, tool)))
  if (missing.length > 0) return `no ${missing.join(', ')} in ${TOOLS}; see scripts/test-tools.mjs`
  return existsSync(BUSYBOX) ? undefined : `no ${BUSYBOX}, which test images are made of`
}

export function kubeconfig(): string {
  return process.env['KUBECONFIG'] ?? ''
}

/** A PATH of its own with the named tools under the names that plugins look for. */
export async function pathWith(world: JobWorld, tools: Record<string, string>): Promise<string> {
  const folder = join(world.dir, `bin-${Object.values(tools).join('-')}`)
  await mkdir(folder)
  for (const [name, tool] of Object.entries(tools)) await symlink(join(TOOLS, tool), join(folder, name))
  return `${folder}:${dirname(process.execPath)}:/usr/local/bin:/usr/bin:/bin`
}

export async function kubectl(...args: string[]): Promise<string> {
  return (await run(join(TOOLS, 'kubectl'), args, { env: process.env })).stdout.trim()
}

export async function helm(tool: string, ...args: string[]): Promise<string> {
  return (await run(join(TOOLS, tool), args, { env: process.env })).stdout.trim()
}

/** A kubeconfig in `folder` for a service account that may do in one namespace what the ClusterRole `admin` lets it. */
export async function accountOf(namespace: string, folder: string): Promise<string> {
  await kubectl('create', 'serviceaccount', 'jobs', '-n', namespace)
  const subject = `--serviceaccount=${namespace}:jobs`
  await kubectl('create', 'rolebinding', 'jobs', '-n', namespace, '--clusterrole=admin', subject)
  const token = await kubectl('create', 'token', 'jobs', '-n', namespace)
  const { clusters } = JSON.parse(await kubectl('config', 'view', '--raw', '--minify', '-o', 'json')) as {
    clusters: { cluster: object }[]
  }
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'jobs',
    clusters: [{ name: 'here', cluster: clusters[0]?.cluster }],
    users: [{ name: 'jobs', user: { token } }],
    contexts: [{ name: 'jobs', context: { cluster: 'here', user: 'jobs' } }],
  }
  const file = join(folder, `${namespace}.kubeconfig`)
  await writeFile(file, JSON.stringify(config), { mode: 0o600 })
  return file
}

/** An image with nothing but a static busybox, in the install registry; its digest. */
export async function pushBusybox(
  world: Pick<JobWorld, 'folder'>,
  to: Pick<TestRegistry, 'client'>,
  repository: string,
): Promise<Digest> {
  const folder = await world.folder({ 'tmp/keep.sh': '', 'bin/sh.sh': '' })
  for (const name of ['busybox', 'sh', 'sleep', 'httpd', 'cat'])
    copyFileSync(BUSYBOX, join(folder, 'bin', name))
  const layer = Buffer.from(await packFolder(folder))
  const config = {
    architecture: 'amd64',
    os: 'linux',
    config: { Cmd: ['/bin/sleep', '100000'], Env: ['PATH=/bin'] },
    rootfs: { type: 'layers', diff_ids: [sha256Digest(gunzipSync(layer))] },
  }
  const mediaType = 'application/vnd.oci.image.config.v1+json'
  const { digest } = await pushArtifact({
    client: to.client,
    repository,
    artifactType: mediaType,
    config: { mediaType, bytes: Buffer.from(JSON.stringify(config)) },
    layers: [{ mediaType: 'application/vnd.oci.image.layer.v1.tar+gzip', bytes: layer }],
  })
  return digest
}
