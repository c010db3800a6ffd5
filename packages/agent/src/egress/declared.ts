import { ConfigRenderer, type Json, type JobManifest, type ManifestOperation } from '@tenon/core'
import { componentJobConfig, jobOutputs, jobState } from '@tenon/protocol'
import { z } from 'zod'
import type { StoreReader } from '../store/install-store.ts'
import { targetsIn, type Declared } from './decide.ts'
import type { Target } from './target.ts'

type Outputs = { [name: string]: Json }
type OutputStore = Pick<StoreReader, 'get'> | undefined

/** The operations that ask probes. */
const PROBES: ReadonlySet<string> = new Set(['plan', 'deploy', 'status'])
/** For the addresses of all probes of a job together: enough for any, and nothing that keeps the agent busy. */
const LIMITS = { steps: 20_000, depth: 50, outputBytes: 65_536 }

/** A sync has none: it reads nothing of the install. */
const ofComponent = z.object({ dependencies: z.array(z.string()) })

/**
 * Where a manifest and the install's outputs let a job connect besides the names that it declares. Nothing that the job
 * itself says counts: its component's outputs do until it has given some (`isUnwritten`), so that no job opens a way for itself.
 */
export async function findDeclared(
  store: OutputStore,
  manifest: JobManifest,
  isUnwritten: () => boolean,
): Promise<Declared> {
  const found = await Promise.all(manifest.operations.map((one) => ofOperation(store, one, isUnwritten)))
  return { outputs: found.flatMap(({ outputs }) => outputs), probes: found.flatMap(({ probes }) => probes) }
}

async function ofOperation(
  store: OutputStore,
  { component, config, operation }: ManifestOperation,
  isUnwritten: () => boolean,
): Promise<{ outputs: Target[]; probes: Target[] }> {
  const readable = ofComponent.safeParse(config)
  if (!readable.success) return { outputs: [], probes: [] }
  const names = [...new Set(readable.data.dependencies)]
  const read = new Map(
    await Promise.all(names.map(async (name) => [name, await readOutputs(store, name)] as const)),
  )
  const own = component === null ? {} : await readOutputs(store, component)
  const values = [...read.values(), ...(isUnwritten() ? [own] : [])]
  return {
    outputs: targetsIn(values.flatMap((outputs) => Object.values(outputs))),
    probes: PROBES.has(operation) ? probeTargets(config, read) : [],
  }
}

/** Pure: where the http and tcp probes lead, rendered as the job does it. What only a secret completes stays unknown. */
function probeTargets(given: Outputs, outputs: ReadonlyMap<string, Outputs>): Target[] {
  const { data: config } = componentJobConfig.safeParse(given)
  const urls = (config?.health?.probes ?? []).flatMap(({ type, url }) => (type === 'exec' ? [] : [url ?? '']))
  if (config === undefined || urls.length === 0) return []
  const renderer = new ConfigRenderer(jobState(config, { outputs }), {}, LIMITS)
  return urls.flatMap((url) => {
    try {
      return targetsIn([url.includes('{{') ? renderer.text(url, ['health']) : url])
    } catch {
      return []
    }
  })
}

async function readOutputs(store: OutputStore, component: string): Promise<Outputs> {
  const bytes = await store?.get('output', component)
  if (bytes === undefined) return {}
  const outputs = jobOutputs.parse(JSON.parse(new TextDecoder().decode(bytes)))
  return Object.fromEntries(Object.entries(outputs).map(([name, { value }]) => [name, value ?? null]))
}
