import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { expect, vi } from 'vitest'
import { z } from 'zod'
import { buildTestImage } from '../docker/engines.testing.ts'

const run = promisify(execFile)

export interface TestCluster {
  kubeconfig: string
  /** By digest, known to every node. */
  image: string
  namespace: string
  /** Everything of the test lies under it. */
  dir: string
  kubectl(...args: string[]): Promise<string>
  close(): Promise<void>
}

/** Why no cluster is there, or undefined. `npm test` starts one where it can, and names it by these variables. */
export function missingCluster(): string | undefined {
  if (!process.env['KUBECONFIG']) return process.env['TENON_KUBERNETES_ABSENT'] ?? 'KUBECONFIG is not set'
  if (!existsSync(process.env['KUBECONFIG'])) return `${process.env['KUBECONFIG']} is not there`
  if (testTool('kubectl') === undefined) return 'kubectl is not here; scripts/test-tools.mjs fetches it'
  return undefined
}

/** A namespace of its own on the cluster of this run, gone with `close`. */
export async function openCluster(name: string, imageArguments = ['--bare']): Promise<TestCluster> {
  const kubeconfig = process.env['KUBECONFIG'] ?? ''
  const dir = await mkdtemp(path.join(tmpdir(), `tenon-${name}-`))
  const namespace = path
    .basename(dir)
    .toLowerCase()
    .replaceAll(/[^a-z0-9-]/g, 'x')
  const program = testTool('kubectl') ?? 'kubectl'
  const kubectl = async (...args: string[]) => {
    const { stdout } = await run(program, ['--kubeconfig', kubeconfig, ...args], { maxBuffer: 16 << 20 })
    return stdout
  }
  const image = await loadImage(dir, imageArguments)
  await kubectl('create', 'namespace', namespace)
  return {
    kubeconfig,
    image,
    namespace,
    dir,
    kubectl,
    async close() {
      const left = () => kubectl('-n', namespace, 'get', 'jobs,pods', '-o', 'name')
      await vi.waitFor(async () => expect(await left()).toBe(''), { timeout: 90_000, interval: 500 })
      await kubectl('delete', 'namespace', namespace, '--wait=false')
      await rm(dir, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}

const listSchema = z.object({
  items: z.array(
    z.object({
      kind: z.string(),
      metadata: z.object({ name: z.string(), deletionTimestamp: z.string().optional() }),
      status: z
        .object({
          containerStatuses: z
            .array(z.object({ state: z.object({ running: z.unknown().optional() }).optional() }))
            .optional(),
        })
        .optional(),
    }),
  ),
})

/** Jobs, pods and Secrets whose names begin so; not a pod whose containers are over and that is being cleared away. */
export async function leftOf({ kubectl, namespace }: TestCluster, prefix: string): Promise<string[]> {
  const text = await kubectl('-n', namespace, 'get', 'jobs,pods,secrets', '-o', 'json')
  return listSchema
    .parse(JSON.parse(text))
    .items.filter(({ kind, metadata, status }) => {
      if (!metadata.name.startsWith(prefix)) return false
      const runs = status?.containerStatuses?.some(({ state }) => state?.running !== undefined) ?? false
      return kind !== 'Pod' || metadata.deletionTimestamp === undefined || runs
    })
    .map(({ kind, metadata }) => `${kind} ${metadata.name}`)
}

/** Into the nodes by the tools' own way; on another cluster, the image that TENON_TEST_JOB_IMAGE names is there already. */
export async function loadImage(dir: string, args: string[], env?: NodeJS.ProcessEnv): Promise<string> {
  const given = process.env['TENON_TEST_JOB_IMAGE']
  if (given) return given
  const { file, digest, reference } = await buildTestImage(dir, args, env)
  const load = process.env['TENON_KUBERNETES_LOAD']
  const cluster = path.dirname(process.env['KUBECONFIG'] ?? '')
  if (!load)
    throw new Error('TENON_KUBERNETES_LOAD or TENON_TEST_JOB_IMAGE must say how jobs get their image.')
  await run(load, [cluster, file])
  return `${reference.replace(/:[^:/]*$/, '')}@${digest}`
}

/** One of the tools that `scripts/test-tools.mjs` fetches. */
export function testTool(name: string): string | undefined {
  const tools =
    process.env['TENON_TEST_TOOLS'] ?? path.join(process.env['HOME'] ?? '', '.cache/tenon-tools/bin')
  return [path.join(tools, name), `/usr/local/bin/${name}`, `/usr/bin/${name}`].find((file) =>
    existsSync(file),
  )
}
