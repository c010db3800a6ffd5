import type { JobObject } from '../packages/agent/src/runtime/kubernetes/job-manifest.ts'
import { openAccess } from '../packages/agent/src/runtime/kubernetes/kube-access.ts'
import { createKubeApi } from '../packages/agent/src/runtime/kubernetes/kube-api.ts'
import { createKubeHttp } from '../packages/agent/src/runtime/kubernetes/kube-http.ts'
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import type { BareRun } from './bare-engines.ts'

const KUBECTL = join(process.env['TENON_TEST_TOOLS'] ?? join(homedir(), '.cache/tenon-tools/bin'), 'kubectl')

/** Why no cluster is at hand; scripts/bench-runtimes.mjs starts one where it can. */
export function missingCluster(): string | undefined {
  if (!process.env['KUBECONFIG']) return process.env['TENON_KUBERNETES_ABSENT'] ?? 'KUBECONFIG is not set'
  if (!existsSync(KUBECTL)) return `no ${KUBECTL}; scripts/test-tools.mjs fetches it`
  const isOwn = process.env['TENON_KUBERNETES_LOAD'] && process.env['TENON_KUBERNETES_HOST_IP']
  return isOwn ? undefined : 'only a cluster of scripts/kubernetes-cluster.mjs can be given the image'
}

/** A namespace of its own, gone with `close`. */
export function openNamespace(name: string): { close(): void } {
  const kubectl = (...args: string[]) => execFileSync(KUBECTL, args, { stdio: 'pipe' })
  kubectl('create', 'namespace', name)
  return { close: () => void kubectl('delete', 'namespace', name, '--wait=false') }
}

/** Into the node; the answer is the image's name by digest. */
export function loadImage(image: { file: string; reference: string; digest: string }): string {
  const cluster = dirname(process.env['KUBECONFIG'] ?? '')
  execFileSync(process.env['TENON_KUBERNETES_LOAD'] ?? '', [cluster, image.file], { stdio: 'pipe' })
  return `${image.reference.replace(/:[^:/]*$/, '')}@${image.digest}`
}

/** Pods see no folder of this machine: a job waits here while the gate is shut. Both sides knock at it. */
export interface Gate {
  /** The program that jobs run: one line, a knock, the end. */
  program: string
  shut(): void
  open(): void
  close(): void
}

export async function openGate(host: string): Promise<Gate> {
  const waiting = new Set<Socket>()
  let isShut = false
  const server = createServer((socket) => {
    socket.on('error', () => undefined)
    if (!isShut) return void socket.end()
    waiting.add(socket)
    socket.on('close', () => waiting.delete(socket))
  })
  await new Promise<void>((resolve) => server.listen(0, host, resolve))
  const { port } = server.address() as AddressInfo
  const open = () => {
    isShut = false
    for (const socket of waiting) socket.end()
  }
  return {
    program: `
import { connect } from 'node:net'
console.log('at work')
await new Promise((resolve) => connect(${port}, '${host}').resume().on('close', resolve).on('error', resolve))
`,
    shut: () => void (isShut = true),
    open,
    close: () => {
      open()
      server.close()
    },
  }
}

/** The walls and limits of a job's own container, without Tenon's keeper, files and log. */
function bareJob(name: string, image: string): JobObject {
  const limits = { cpu: '1', memory: '100000000' }
  const container = {
    name: 'job',
    image,
    imagePullPolicy: 'IfNotPresent',
    command: ['/usr/local/bin/node', '/opt/tenon/job.mjs'],
    resources: { requests: { cpu: '100m', memory: limits.memory }, limits },
    securityContext: {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    },
    volumeMounts: [{ name: 'tmp', mountPath: '/tmp' }],
  }
  const securityContext = { runAsNonRoot: true, runAsUser: 65532, seccompProfile: { type: 'RuntimeDefault' } }
  const spec = {
    restartPolicy: 'Never',
    enableServiceLinks: false,
    automountServiceAccountToken: false,
    securityContext,
    containers: [container],
    volumes: [{ name: 'tmp', emptyDir: { sizeLimit: '67108864' } }],
  }
  const job = {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { name, labels: {}, annotations: {} },
    spec: { backoffLimit: 0, completions: 1, parallelism: 1, template: { spec } },
  }
  return job as unknown as JobObject
}

/** What `kubectl create`, `wait` and `logs` ask of the API server, without the start of kubectl itself. */
export async function bareKubernetes(
  namespace: string,
  image: string,
): Promise<BareRun & { removeAll(): Promise<void> }> {
  const kubeconfig = process.env['KUBECONFIG']
  const api = createKubeApi({ kubeconfig, namespace })
  const http = createKubeHttp(await openAccess(kubeconfig, { host: undefined, port: undefined }))
  const ended: string[] = []
  let count = 0
  const run = async () => {
    const name = `bare-${++count}`
    await api.createJob(bareJob(name, image))
    ended.push(name)
    const over = new AbortController()
    for await (const change of api.watchPods(`job-name=${name}`, '', over.signal)) {
      if (!('pod' in change)) continue
      const [container] = change.pod.status.containerStatuses
      const code = container?.state.terminated?.exitCode
      if (code === undefined) continue
      const path = `/api/v1/namespaces/${namespace}/pods/${change.pod.metadata.name}/log`
      const lines: string[] = []
      for await (const line of http.lines({ method: 'GET', path })) lines.push(line)
      if (code !== 0 || !lines.includes('at work'))
        throw new Error(`the bare job ended with ${code}: ${lines.join(' ')}`)
      break
    }
    over.abort()
  }
  const removeAll = async () => {
    const names = ended.splice(0)
    await Promise.all(names.map((name) => api.deleteJob(name)))
    for (const name of names) {
      while ((await api.listPods(`job-name=${name}`)).pods.length > 0)
        await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }
  return Object.assign(run, { removeAll })
}
