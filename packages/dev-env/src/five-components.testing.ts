import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { hostAddress, installChartAgent } from '@tenon/agent/testing/chart'
import { createRegistryClient, createTokenIssuer, startRegistryServer } from '@tenon/oci'
import { pushBusybox } from '@tenon/plugins/testing/kubernetes'
import { startProgram, type Program } from './program.ts'
import { buildPrograms } from './programs.ts'
import { until } from './until.ts'
import { createWorld, type ServerHandle, type World } from './world.ts'

const run = promisify(execFile)
const root = fileURLToPath(new URL('../../..', import.meta.url))
const TOOLS = process.env['TENON_TEST_TOOLS'] ?? join(homedir(), '.cache/tenon-tools/bin')
/** Pods must reach the server; where they cannot, only agents beside the cluster are tried. */
const HOST = hostAddress ?? '127.0.0.1'

/** A server with a build of the app, an install registry, and any number of installs on the cluster. */
export interface FiveGround {
  dir: string
  server: ServerHandle
  tenon(...args: string[]): Promise<{ stdout: string; stderr: string }>
  /** Into the folder of the app. */
  write(files: Record<string, string>): void
  appFiles(replicas: string): Record<string, string>
  addInstall(name: string, how: 'in the cluster' | 'by kubeconfig'): Promise<Install>
  close(): Promise<void>
}

export interface Install {
  name: string
  /** In the namespace of its app. */
  kubectl(...args: string[]): Promise<string>
  /** What its jobs are to the cluster. */
  account: string | undefined
}

interface State extends Omit<FiveGround, 'addInstall' | 'close' | 'appFiles'> {
  world: World
  dist: string
  /** Before the name of an install, its app's namespace. */
  prefix: string
  registry: { keyFile: string; key: Buffer; port: string; node: string }
  tools: string
  closing: (() => unknown)[]
}

export async function openFiveGround(marker: string): Promise<FiveGround> {
  const dir = mkdtempSync(join(tmpdir(), 'tenon-five-'))
  const closing: State['closing'] = [() => rmSync(dir, { recursive: true, force: true })]
  const close = async () => {
    for (const one of closing.toReversed()) await one()
  }
  try {
    const { dist, remove } = await buildPrograms(root)
    closing.push(remove)
    const image = await serveUpstream(dir, closing)
    const tools = linkTools(dir)
    const world = createWorld({ dir, dist, onStart: (program) => closing.push(() => program.stop()) })
    const server = await world.startServer({ env: { TENON_HOST: HOST } })
    await world.startAgent(server, {
      name: 'build-agent',
      role: 'build',
      env: { TENON_TOOL_PATHS: `${tools}:${TOOLS}` },
    })
    const registry = await startInstallRegistry(dir, dist, closing)
    const prefix = `five-${randomBytes(3).toString('hex')}`
    const tenon = tenonOf(dir, dist, server)
    const write: FiveGround['write'] = (files) => {
      for (const [name, text] of Object.entries(files)) place(join(dir, 'app', name), text)
    }
    const files: FiveGround['appFiles'] = (replicas) =>
      appFiles(image, `${prefix}-{{ .nuon.install.name }}`, replicas)
    write(files('1'))
    await tenon('plugins', 'init', 'own', join(dir, 'app', 'own'), '--shell')
    await tenon('builds', 'create', join(dir, 'app'))
    const state = { dir, dist, server, world, tenon, write, prefix, registry, tools, closing }
    const addInstall: FiveGround['addInstall'] = (name, how) => startInstall(state, name, how, marker)
    return { dir, server, tenon, write, appFiles: files, addInstall, close }
  } catch (error) {
    await close()
    throw error
  }
}

function tenonOf(dir: string, dist: string, server: ServerHandle): FiveGround['tenon'] {
  const env = { ...process.env, TENON_URL: server.url, TENON_TOKEN: server.token, HOME: dir }
  return async (...args) =>
    run(process.execPath, [join(dist, 'cli.mjs'), ...args], { env, maxBuffer: 1 << 24 }).catch(
      (error: Error & { stdout: string; stderr: string }) => {
        throw new Error(`tenon ${args.join(' ')}: ${error.stdout}${error.stderr}`)
      },
    )
}

async function startInstall(
  state: State,
  name: string,
  how: Parameters<FiveGround['addInstall']>[1],
  marker: string,
): Promise<Install> {
  const { dir, server, tenon } = state
  const namespace = `${state.prefix}-${name}`
  const kubectl = async (...args: string[]) =>
    (await run(join(TOOLS, 'kubectl'), ['-n', namespace, ...args])).stdout.trim()
  await kubectl('create', 'namespace', namespace)
  state.closing.push(() => kubectl('delete', 'namespace', namespace, '--wait=false'))
  await letNodesPull(state, kubectl)
  await tenon('installs', 'create', name, '--app', 'five', '--detach')
  const account =
    how === 'by kubeconfig' ? await startBeside(state, name) : await startInside(state, name, namespace)
  const isKnown = () =>
    server.client.call('installs.recipient', { params: { ref: name } }).then(
      () => true,
      () => false,
    )
  await until('the recipient', isKnown, 60_000)
  writeFileSync(join(dir, 'secret'), marker)
  await tenon('installs', 'secrets', 'set', name, 'api_key', '--file', join(dir, 'secret'))
  rmSync(join(dir, 'secret'))
  return { name, kubectl, account }
}

/** A process beside the cluster, whose jobs are lent a kubeconfig. */
async function startBeside({ world, server, registry, tools }: State, install: string): Promise<undefined> {
  await world.startAgent(server, {
    name: `agent-${install}`,
    role: { install },
    env: {
      TENON_REGISTRY_URL: `http://127.0.0.1:${registry.port}`,
      TENON_REGISTRY_KEY_FILE: registry.keyFile,
      TENON_REGISTRY_NODE_ADDRESS: registry.node,
      TENON_JOB_KUBECONFIG: process.env['KUBECONFIG']!,
      TENON_TOOL_PATHS: `${tools}:${TOOLS}`,
    },
  })
}

/** A pod of the chart, whose jobs may touch the namespace of the app and no other. */
async function startInside(state: State, install: string, namespace: string): Promise<string> {
  const { dir, dist, server, registry } = state
  const { joinToken } = await server.client.call('installs.joinToken', { params: { ref: install } })
  const agent = await installChartAgent({
    dir: join(dir, `chart-${install}`),
    dist,
    namespace: `${namespace}-agent`,
    helm: 'helm4',
    server: { url: server.url, joinToken },
    registry: {
      url: `http://${HOST}:${registry.port}`,
      keyFile: registry.keyFile,
      nodeAddress: registry.node,
    },
    tools: { helm: join(TOOLS, 'helm4'), kubectl: join(TOOLS, 'kubectl') },
    jobs: { cluster: { namespaces: [namespace] } },
  })
  state.closing.push(agent.close)
  return `system:serviceaccount:${agent.jobsNamespace}:${agent.release}-components`
}

async function letNodesPull({ registry }: State, kubectl: Install['kubectl']): Promise<void> {
  const repositories = [{ name: '*', actions: ['pull' as const] }]
  const bearer = createTokenIssuer(registry.key).issue({ subject: 'node', repositories }, 3600, Date.now())
  const login = [`--docker-server=${registry.node}`, '--docker-username=node', `--docker-password=${bearer}`]
  await kubectl('create', 'secret', 'docker-registry', 'pull', ...login)
  const patch = '{"imagePullSecrets":[{"name":"pull"}]}'
  await until('the default account', async () =>
    kubectl('patch', 'serviceaccount', 'default', '-p', patch).then(
      () => true,
      () => false,
    ),
  )
}

/** A registry of the world outside, with the image that the app names; the image's name. */
async function serveUpstream(dir: string, closing: State['closing']): Promise<string> {
  const upstream = await startRegistryServer({
    dir: join(dir, 'upstream'),
    port: 0,
    host: '127.0.0.1',
    authorize: async () => ({ ok: true }),
  })
  closing.push(() => upstream.close())
  const client = createRegistryClient({ url: upstream.url, credentials: async () => undefined })
  const folder = async (files: Record<string, string>) => {
    const path = mkdtempSync(join(dir, 'image-'))
    for (const [name, text] of Object.entries(files)) place(join(path, name), text)
    return path
  }
  const digest = await pushBusybox({ folder }, { client }, 'busybox')
  const found = await client.getManifest('busybox', digest)
  await client.putManifest('busybox', '1', found.mediaType, found.bytes)
  return `${new URL(upstream.url).host}/busybox`
}

/** Nodes of the test cluster pull from the loopback of this host, pods come by its address. */
async function startInstallRegistry(
  dir: string,
  dist: string,
  closing: State['closing'],
): Promise<State['registry']> {
  const key = randomBytes(32)
  const keyFile = join(dir, 'registry.key')
  writeFileSync(keyFile, key.toString('base64url'), { mode: 0o600 })
  const registry: Program = startProgram({
    name: 'registry',
    bundle: join(dist, 'registry.mjs'),
    args: ['--dir', join(dir, 'registry'), '--port', '0', '--host', '0.0.0.0', '--key-file', keyFile],
    env: { PATH: process.env['PATH'] ?? '' },
    logFile: join(dir, 'log', 'registry.log'),
  })
  closing.push(() => registry.stop())
  const port = /listens at \S+:(\d+)/.exec(await registry.firstLine())![1]!
  return { key, keyFile, port, node: `127.0.0.1:${port}` }
}

function linkTools(dir: string): string {
  const tools = join(dir, 'tools')
  mkdirSync(tools)
  symlinkSync(join(TOOLS, 'helm3'), join(tools, 'helm'))
  symlinkSync(join(TOOLS, 'kubectl'), join(tools, 'kubectl'))
  return tools
}

function place(file: string, text: string): void {
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, text)
}

/** Terraform, an image, a chart that uses both, a manifest, and a plugin of the vendor's own. */
export function appFiles(image: string, namespace: string, replicas: string): Record<string, string> {
  return {
    'metadata.toml': 'version = "v1"\ndisplay_name = "five"\ndescription = "One of each."\n',
    'secrets.toml': `[[secret]]\nname = "api_key"\ndisplay_name = "k"\ndescription = "k"\nrequired = true\nkubernetes_sync = true\nkubernetes_secret_namespace = "${namespace}"\nkubernetes_secret_name = "synced-key"\n`,
    'inputs.toml':
      '[[group]]\nname = "g"\ndisplay_name = "g"\ndescription = "g"\n[[input]]\nname = "greeting"\ngroup = "g"\ndisplay_name = "g"\ndescription = "g"\ndefault = "hello"\n',
    'components/base.toml':
      'name = "base"\ntype = "terraform_module"\nterraform_version = "1.11.4"\nsource = "../base"\n[vars]\ngreeting = "{{ .nuon.inputs.inputs.greeting }}"\nkey = "{{ .nuon.secrets.api_key }}"\n',
    'base/main.tf': `variable "greeting" {}
variable "key" { sensitive = true }
resource "terraform_data" "it" { input = "\${var.greeting} from terraform" }
resource "terraform_data" "hidden" { input = var.key }
output "words" { value = terraform_data.it.output }
output "hidden" {
  value     = terraform_data.hidden.output
  sensitive = true
}
`,
    'components/image.toml': `name = "image"\ntype = "container_image"\n[public]\nimage_url = "${image}"\ntag = "1"\n`,
    'components/web.toml': `name = "web"\ntype = "helm_chart"\nchart_name = "web"\nnamespace = "${namespace}"\nsource = "../chart"\n[[values_file]]\ncontents = """
image: "{{ .nuon.components.image.outputs.image.reference }}"
words: "{{ .nuon.components.base.outputs.words }}"
hidden: "{{ .nuon.components.base.outputs.hidden }}"
replicas: ${replicas}
"""\n`,
    'chart/Chart.yaml': 'apiVersion: v2\nname: web\nversion: 1.0.0\n',
    'chart/values.yaml': 'image: ""\nwords: ""\nhidden: ""\nreplicas: 1\ncommand: sleep 100000\n',
    'chart/templates/all.yaml': `apiVersion: v1
kind: Secret
metadata: { name: web }
stringData: { hidden: {{ .Values.hidden | quote }} }
---
apiVersion: apps/v1
kind: Deployment
metadata: { name: web }
spec:
  replicas: {{ .Values.replicas }}
  selector: { matchLabels: { app: web } }
  template:
    metadata: { labels: { app: web } }
    spec:
      terminationGracePeriodSeconds: 1
      containers:
        - name: web
          image: {{ .Values.image | quote }}
          command: ["/bin/sh", "-c", {{ .Values.command | quote }}]
          env: [{ name: WORDS, value: {{ .Values.words | quote }} }]
`,
    'components/notes.toml': `name = "notes"\ntype = "kubernetes_manifest"\nnamespace = "${namespace}"\ndependencies = ["web"]\nmanifest = """
apiVersion: v1
kind: ConfigMap
metadata: { name: notes }
data: { words: "{{ .nuon.components.base.outputs.words }}" }
"""\n`,
    'components/own.toml':
      'name = "own"\ntype = "plugin"\nsource = "../own"\ngreeting = "{{ .nuon.components.base.outputs.words }}"\n',
    'actions/look.toml':
      'name = "look"\ntimeout = "1m"\nenable_kube_config = true\n[[triggers]]\ntype = "manual"\n[[steps]]\nname = "say"\ninline_contents = """\necho "key={{ .nuon.secrets.api_key }}"\nkubectl auth whoami\nkubectl auth can-i get secrets -n kube-system || true\nprintf \'{"words": "{{ .nuon.components.base.outputs.words }}"}\' > "$TENON_OUTPUTS"\n"""\n',
  }
}
