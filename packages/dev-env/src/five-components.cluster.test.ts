import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { createRegistryClient, createTokenIssuer, startRegistryServer } from '@tenon/oci'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { pushBusybox, whyNoCluster } from '@tenon/plugins/testing/kubernetes'
import { startProgram, type Program } from './program.ts'
import { buildPrograms } from './programs.ts'
import { until } from './until.ts'
import { createWorld, type ServerHandle } from './world.ts'

const run = promisify(execFile)
const root = fileURLToPath(new URL('../../..', import.meta.url))
const TOOLS = process.env['TENON_TEST_TOOLS'] ?? join(homedir(), '.cache/tenon-tools/bin')
const MARKER = 'marker-of-the-five-components'
const absent = whyNoCluster('helm3')

/** Terraform, an image, a chart that uses both, a manifest, and a plugin of the vendor's own. */
function appFiles(image: string, namespace: string, replicas: string): Record<string, string> {
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
      'name = "look"\ntimeout = "1m"\n[[triggers]]\ntype = "manual"\n[[steps]]\nname = "say"\ninline_contents = """\necho "key={{ .nuon.secrets.api_key }}"\nprintf \'{"words": "{{ .nuon.components.base.outputs.words }}"}\' > "$TENON_OUTPUTS"\n"""\n',
  }
}

describe.skipIf(absent !== undefined)(
  `an app of five components on a real cluster${absent ? ` (${absent})` : ''}`,
  () => {
    const dir = mkdtempSync(join(tmpdir(), 'tenon-five-'))
    const namespace = `five-${randomBytes(3).toString('hex')}`
    const programs: Program[] = []
    const closing: (() => unknown)[] = [() => rmSync(dir, { recursive: true, force: true })]
    let server: ServerHandle
    let dist: string
    let image: string

    const tenon = async (...args: string[]) => {
      const env = { ...process.env, TENON_URL: server.url, TENON_TOKEN: server.token, HOME: dir }
      return run(process.execPath, [join(dist, 'cli.mjs'), ...args], { env, maxBuffer: 1 << 24 }).catch(
        (error: Error & { stdout: string; stderr: string }) => {
          throw new Error(`tenon ${args.join(' ')}: ${error.stdout}${error.stderr}`)
        },
      )
    }
    const kubectl = async (...args: string[]) =>
      (await run(join(TOOLS, 'kubectl'), ['-n', namespace, ...args])).stdout.trim()
    const write = (files: Record<string, string>) => {
      for (const [name, text] of Object.entries(files)) {
        mkdirSync(dirname(join(dir, 'app', name)), { recursive: true })
        writeFileSync(join(dir, 'app', name), text)
      }
    }
    const install = () => server.client.call('installs.get', { params: { ref: 'acme' } })
    const stepsOf = async (id: string) => {
      const { steps } = await server.client.call('runs.get', { params: { id } })
      return Object.fromEntries(steps.map((step) => [step.key, step.status]))
    }
    const lastRun = async () =>
      (await server.client.call('runs.list', { query: { install: 'acme', limit: 1 } })).items[0]!

    beforeAll(async () => {
      const built = await buildPrograms(root)
      dist = built.dist
      closing.push(built.remove)
      const tools = join(dir, 'tools')
      mkdirSync(tools)
      for (const [name, tool] of [
        ['helm', 'helm3'],
        ['kubectl', 'kubectl'],
      ] as const)
        symlinkSync(join(TOOLS, tool), join(tools, name))
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
        for (const [name, text] of Object.entries(files)) {
          mkdirSync(dirname(join(path, name)), { recursive: true })
          writeFileSync(join(path, name), text)
        }
        return path
      }
      const digest = await pushBusybox({ folder }, { client }, 'busybox')
      const found = await client.getManifest('busybox', digest)
      await client.putManifest('busybox', '1', found.mediaType, found.bytes)
      image = `${new URL(upstream.url).host}/busybox`

      const world = createWorld({ dir, dist, onStart: (program) => programs.push(program) })
      server = await world.startServer()
      await world.startAgent(server, {
        name: 'build-agent',
        role: 'build',
        env: { TENON_TOOL_PATHS: `${tools}:${TOOLS}` },
      })
      const key = randomBytes(32)
      writeFileSync(join(dir, 'registry.key'), key.toString('base64url'), { mode: 0o600 })
      const registry = startProgram({
        name: 'registry',
        bundle: join(dist, 'registry.mjs'),
        args: ['--dir', join(dir, 'registry'), '--port', '0', '--key-file', join(dir, 'registry.key')],
        env: { PATH: process.env['PATH'] ?? '' },
        logFile: join(dir, 'log', 'registry.log'),
      })
      programs.push(registry)
      const url = /listens at (\S+)/.exec(await registry.firstLine())![1]!
      const node = new URL(url).host

      write(appFiles(image, namespace, '1'))
      await tenon('plugins', 'init', 'own', join(dir, 'app', 'own'), '--shell')
      await tenon('builds', 'create', join(dir, 'app'))
      await run(join(TOOLS, 'kubectl'), ['create', 'namespace', namespace])
      closing.push(() => run(join(TOOLS, 'kubectl'), ['delete', 'namespace', namespace, '--wait=false']))
      const bearer = createTokenIssuer(key).issue(
        { subject: 'node', repositories: [{ name: '*', actions: ['pull'] }] },
        3600,
        Date.now(),
      )
      await kubectl(
        'create',
        'secret',
        'docker-registry',
        'pull',
        `--docker-server=${node}`,
        '--docker-username=node',
        `--docker-password=${bearer}`,
      )
      await until('the default account', async () =>
        kubectl('patch', 'serviceaccount', 'default', '-p', '{"imagePullSecrets":[{"name":"pull"}]}').then(
          () => true,
          () => false,
        ),
      )
      await tenon('installs', 'create', 'acme', '--app', 'five', '--detach')
      await world.startAgent(server, {
        name: 'agent',
        role: { install: 'acme' },
        env: {
          TENON_REGISTRY_URL: url,
          TENON_REGISTRY_KEY_FILE: join(dir, 'registry.key'),
          TENON_REGISTRY_NODE_ADDRESS: node,
          TENON_JOB_KUBECONFIG: process.env['KUBECONFIG']!,
          TENON_TOOL_PATHS: `${tools}:${TOOLS}`,
        },
      })
      await until(
        'the recipient',
        () =>
          server.client.call('installs.recipient', { params: { ref: 'acme' } }).then(
            () => true,
            () => false,
          ),
        60_000,
      )
      writeFileSync(join(dir, 'secret'), MARKER)
      await tenon('installs', 'secrets', 'set', 'acme', 'api_key', '--file', join(dir, 'secret'))
      rmSync(join(dir, 'secret'))
    }, 300_000)
    afterAll(async () => {
      for (const program of programs.toReversed()) await program.stop()
      for (const close of closing.toReversed()) await close()
    }, 120_000)

    it('provisions, plans, upgrades, survives a failing upgrade, and goes in reverse order', async () => {
      await until('the provision', async () => (await lastRun()).finishedAt !== null, 600)
      const first = await lastRun()
      // It may have begun before the secret came, and then stops there and nowhere else.
      const stops = first.steps.filter((step) => step.status === 'failed')
      expect(
        stops.filter((step) => !/secret api_key/.test(step.message)).map((step) => step.message),
      ).toEqual([])
      if (stops.length > 0) await tenon('deploy', 'acme')
      expect((await install()).components.map((c) => [c.name, c.status])).toEqual(
        ['base', 'image', 'notes', 'own', 'web'].map((name) => [name, 'deployed']),
      )
      expect(await kubectl('get', 'configmap', 'notes', '-o', 'jsonpath={.data.words}')).toBe(
        'hello from terraform',
      )
      expect(await kubectl('get', 'deployment', 'web', '-o', 'jsonpath={.status.readyReplicas}')).toBe('1')
      const used = await kubectl(
        'get',
        'deployment',
        'web',
        '-o',
        'jsonpath={.spec.template.spec.containers[0].image}',
      )
      expect(used).toMatch(/^127\.0\.0\.1:\d+\/apps\/five\/image@sha256:/)

      const synced = await kubectl('get', 'secret', 'synced-key', '-o', 'jsonpath={.data.value}')
      expect(Buffer.from(synced, 'base64').toString()).toBe(MARKER)

      // The same again changes nothing, and an input changes exactly what reads it.
      await tenon('deploy', 'acme')
      expect(await stepsOf((await lastRun()).id)).toMatchObject({
        'deploy:web': 'skipped',
        'deploy:base': 'skipped',
        'deploy:notes': 'skipped',
      })
      await tenon('installs', 'update', 'acme', '--input', 'greeting=good day')
      expect(Object.keys(await stepsOf((await lastRun()).id)).toSorted()).toEqual([
        'deploy:base',
        'plan:base',
        'secrets',
        'sync',
        'sync:base',
      ])

      // A diff first, approved by somebody.
      await tenon('installs', 'update', 'acme', '--approval', 'prompt')
      write(appFiles(image, namespace, '2'))
      await tenon('apps', 'sync', join(dir, 'app'))
      const { stdout } = await tenon('deploy', 'acme', 'web', '--detach')
      const id = stdout.trim()
      await until('the approval', async () => (await stepsOf(id))['approval:web'] === 'active', 300)
      expect((await tenon('runs', 'plan', id, 'web')).stdout).toMatch(/~ Deployment .*web[\s\S]*replicas/)
      await tenon('runs', 'approve', id, 'web', '--yes')
      expect(await kubectl('get', 'deployment', 'web', '-o', 'jsonpath={.status.readyReplicas}')).toBe('2')
      await tenon('installs', 'update', 'acme', '--approval', 'approve-all')

      // An upgrade that crashes is rolled back, and the reason is the cluster's.
      const broken = appFiles(image, namespace, '2')
      broken['chart/values.yaml'] = broken['chart/values.yaml']!.replace(
        'sleep 100000',
        'echo it broke; exit 3',
      )
      write(broken)
      await tenon('builds', 'create', join(dir, 'app'), '--component', 'web')
      await expect(tenon('deploy', 'acme', 'web')).rejects.toThrow(/crash|it broke|exit/i)
      const failed = (await lastRun()).steps.find((step) => step.key === 'deploy:web')!
      expect(failed.message).toMatch(/rolled back/i)
      expect(failed.message).not.toMatch(/timed out waiting/i)
      expect(await kubectl('get', 'deployment', 'web', '-o', 'jsonpath={.status.readyReplicas}')).toBe('2')

      // An action sees the secret; nobody else does.
      await tenon('actions', 'run', 'acme', 'look')
      const log = (
        await tenon('logs', (await lastRun()).steps.find((step) => step.kind === 'action')!.jobId!)
      ).stdout
      expect(log).toContain('key=(sensitive)')

      await tenon('installs', 'teardown', 'acme', '--yes')
      const order = (await lastRun()).steps
        .toSorted((a, b) => a.finishedAt!.localeCompare(b.finishedAt!))
        .map((s) => s.component)
      expect(order.indexOf('web')).toBeLessThan(order.indexOf('base'))
      expect(order.indexOf('notes')).toBeLessThan(order.indexOf('web'))
      expect((await install()).components).toEqual([])
      expect(await kubectl('get', 'deployments,configmaps,secrets', '-o', 'name')).not.toMatch(
        /web|notes|helm|synced/,
      )
      await tenon('audit', 'verify', '--all')

      // The marker went through Terraform, Helm's values and an action, and the server has none of it.
      expect(filesWith(join(dir, 'server'), MARKER)).toEqual([])
      expect(filesWith(join(dir, 'log'), MARKER)).toEqual([])
    }, 900_000)
  },
)

function filesWith(folder: string, text: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => {
    const file = join(folder, name)
    return statSync(file, { throwIfNoEntry: false })?.isFile() && readFileSync(file).includes(text)
  })
}
