import { createHash } from 'node:crypto'
import { openCluster } from '../kubernetes/cluster.ts'
import {
  deployObjects,
  destroyObjects,
  objectsThere,
  planObjects,
  statusOfObjects,
  type Target,
} from '../kubernetes/component.ts'
import { debugObjects } from '../kubernetes/debug.ts'
import { logsOfObjects } from '../kubernetes/logs.ts'
import { kubeObject, type KubeObject } from '../kubernetes/objects.ts'
import type { Closed } from './closure.ts'
import { envOf, type ImageService, type ServiceParts } from './image-service.ts'

/** A Deployment, a Service and a Secret with the environment. */
export function serviceOnKubernetes(parts: ServiceParts): ImageService {
  const { work, wanted } = parts
  const targetOf = async (): Promise<Target> => ({
    work,
    cluster: await openCluster(work),
    namespace: wanted.namespace === '' ? work.config.install.name : wanted.namespace,
  })
  return {
    plan: async () => planObjects(await targetOf(), serviceObjects(parts)),
    async deploy() {
      const target = await targetOf()
      const done = await deployObjects(target, async () => serviceObjects(parts))
      if (!done.ok) return done
      const host = { sensitive: false, value: `${objectName(work.name)}.${target.namespace}.svc` }
      return { ...done, outputs: { ...done.outputs, host, port: { sensitive: false, value: wanted.port } } }
    },
    status: async () => statusOfObjects(await targetOf(), serviceObjects(parts)),
    destroy: async () => destroyObjects(await targetOf()),
    async logs() {
      const target = await targetOf()
      return logsOfObjects(target, () => objectsThere(target))
    },
    async debug() {
      const target = await targetOf()
      return debugObjects(target, await objectsThere(target))
    },
  }
}

/** The environment may hold secrets, so it is a Secret; what depends on it starts anew when it changes. */
function serviceObjects({ work, wanted, image }: ServiceParts): Closed {
  const { reference } = image()
  const name = objectName(work.name)
  const labels = { 'app.kubernetes.io/name': name, 'app.kubernetes.io/managed-by': 'tenon' }
  const env = envOf(wanted)
  const fingerprint = createHash('sha256').update(JSON.stringify(env)).digest('hex')
  work.masker.add(fingerprint)
  const probe = {
    httpGet: { path: wanted.health_path, port: wanted.port },
    periodSeconds: 2,
    failureThreshold: 3,
  }
  const container = {
    name: 'main',
    image: reference,
    ...(wanted.command === undefined ? {} : { command: wanted.command }),
    ports: [{ containerPort: wanted.port, protocol: 'TCP' }],
    envFrom: [{ secretRef: { name: `${name}-env` } }],
    ...(wanted.health_path === undefined ? {} : { readinessProbe: probe }),
  }
  const selector = { 'app.kubernetes.io/name': name }
  const annotations = { 'tenon.dev/environment': fingerprint }
  const template = { metadata: { labels, annotations }, spec: { containers: [container] } }
  const metadata = { name, labels }
  const ports = [{ port: wanted.port, targetPort: wanted.port, protocol: 'TCP' }]
  const objects = [
    { apiVersion: 'v1', kind: 'Secret', metadata: { name: `${name}-env`, labels }, stringData: env },
    { apiVersion: 'v1', kind: 'Service', metadata, spec: { selector, ports } },
    {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata,
      spec: { replicas: wanted.replicas, selector: { matchLabels: selector }, template },
    },
  ]
  return { objects: objects.map((object) => kubeObject.parse(object) as KubeObject), images: [reference] }
}

function objectName(component: string): string {
  return component.replaceAll('_', '-')
}
