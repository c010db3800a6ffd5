import { z } from 'zod'
import type { Cluster } from './cluster.ts'
import { listOf, type KubeObject } from './objects.ts'

const entry = z.object({
  apiVersion: z.string(),
  kind: z.string(),
  metadata: z.object({ name: z.string(), namespace: z.string().exactOptional() }),
})
const content = z.object({ base: z.string(), objects: z.array(entry) })

/** What a component has put into the cluster, kept there, so that what it no longer wants can be found and removed. */
export interface Inventory {
  /** Digest of what was last applied; empty before the first time and while a change is under way. */
  base: string
  objects: KubeObject[]
}

export async function readInventory(
  cluster: Cluster,
  namespace: string,
  component: string,
): Promise<Inventory> {
  const [map] = await cluster.get(['configmap', nameOf(component), '-n', namespace])
  const text = (map?.['data'] as { inventory?: string } | undefined)?.inventory
  if (text === undefined) return { base: '', objects: [] }
  return content.parse(JSON.parse(text)) as unknown as Inventory
}

export async function writeInventory(
  cluster: Cluster,
  namespace: string,
  component: string,
  inventory: Inventory,
): Promise<void> {
  const objects = inventory.objects.map(({ apiVersion, kind, metadata: { name, namespace: place } }) => ({
    apiVersion,
    kind,
    metadata: { name, ...(place === undefined ? {} : { namespace: place }) },
  }))
  const map = {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: nameOf(component), namespace, labels: { 'app.kubernetes.io/managed-by': 'tenon' } },
    data: { inventory: JSON.stringify({ base: inventory.base, objects }) },
  }
  await cluster.must(
    ['apply', '--server-side', '--force-conflicts', '--field-manager=tenon', '-f', '-'],
    listOf([map as unknown as KubeObject]),
  )
}

export async function removeInventory(cluster: Cluster, namespace: string, component: string): Promise<void> {
  await cluster.must(['delete', 'configmap', nameOf(component), '-n', namespace, '--ignore-not-found'])
}

function nameOf(component: string): string {
  return `tenon-inventory-${component.replaceAll('_', '-')}`
}
