import { join, resolve } from 'node:path'
import type { Io } from '../io.ts'

/** Programs that speak to registries, each with the credentials that a file of its kind holds. */
export const TOOLS = ['docker', 'podman', 'skopeo', 'oras', 'cosign', 'helm'] as const
export type Tool = (typeof TOOLS)[number]

export type Where = Pick<Io, 'env' | 'cwd' | 'host'>

export interface ToolFile {
  path: string
  tools: Tool[]
}

/** Pure: the files that these tools read first, each once. */
export function filesOf(tools: readonly Tool[], where: Where): ToolFile[] {
  const byPath = new Map<string, Tool[]>()
  for (const tool of TOOLS.filter((each) => tools.includes(each))) {
    const path = fileOf(tool, where)
    byPath.set(path, [...(byPath.get(path) ?? []), tool])
  }
  return [...byPath].map(([path, readers]) => ({ path, tools: readers }))
}

function fileOf(tool: Tool, where: Where): string {
  if (tool === 'helm') return helmFile(where)
  const { env, cwd } = where
  const ofContainers = tool === 'podman' || tool === 'skopeo'
  if (ofContainers && env['REGISTRY_AUTH_FILE']) return resolve(cwd, env['REGISTRY_AUTH_FILE'])
  if (ofContainers && env['XDG_RUNTIME_DIR'])
    return resolve(cwd, env['XDG_RUNTIME_DIR'], 'containers', 'auth.json')
  // Without a file of their own, podman and skopeo read Docker's.
  return dockerFile(where)
}

function dockerFile({ env, cwd, host }: Where): string {
  return resolve(cwd, env['DOCKER_CONFIG'] || join(host.home, '.docker'), 'config.json')
}

function helmFile({ env, cwd, host }: Where): string {
  if (env['HELM_REGISTRY_CONFIG']) return resolve(cwd, env['HELM_REGISTRY_CONFIG'])
  const ofSystem =
    host.platform === 'darwin' ? join(host.home, 'Library', 'Preferences') : join(host.home, '.config')
  const folder = env['HELM_CONFIG_HOME'] || join(env['XDG_CONFIG_HOME'] || ofSystem, 'helm')
  return resolve(cwd, folder, 'registry', 'config.json')
}

/** Pure: what to type next, for a registry that speaks TLS or, like one on this machine, does not. */
export function exampleOf(tool: Tool, url: string): string {
  const { host, protocol } = new URL(url)
  const isPlain = protocol === 'http:'
  const artifact = `${host}/apps/APP/COMPONENT`
  const plain = (flag: string) => (isPlain ? ` ${flag}` : '')
  switch (tool) {
    case 'docker':
      return `docker pull ${artifact}:v1`
    case 'podman':
      return `podman pull${plain('--tls-verify=false')} ${artifact}:v1`
    case 'skopeo':
      return `skopeo inspect --raw${plain('--tls-verify=false')} docker://${artifact}:v1`
    case 'oras':
      return `oras pull${plain('--plain-http')} ${artifact}:v1`
    case 'helm':
      return `helm pull${plain('--plain-http')} oci://${artifact} --version CHART_VERSION`
    case 'cosign':
      return `cosign verify --key tenon.pub --insecure-ignore-tlog=true${plain('--allow-http-registry')} ${artifact}:v1`
  }
}
