// Installs, builds what there is to build, runs the tests (arguments go to vitest), and names what could not be tried here.
// `--stage NAME` runs the files named `*.NAME.test.ts`; without it those of no stage, the everyday suite.
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { ensureInstalled } from './ensure-installed.mjs'
import { report, runTests } from './run-tests.mjs'
import { toolsFolder } from './test-tools.mjs'

ensureInstalled()
const STAGES = {
  engine: 'a container engine; `npm run test:engines` runs it',
  cluster: 'a Kubernetes cluster; `npm run test:cluster` runs it',
  skew: 'programs of earlier commits, beside today’s; `npm run test:skew` runs it',
}
// Only after the installation: building needs its packages.
const { bundle, entries, root } = await import('./build.mjs')

const present = Object.keys(entries).filter((name) => existsSync(join(root, entries[name])))
try {
  await bundle(present)
} catch {
  console.error('The programs cannot be built, so their tests cannot run: see the errors above.')
  process.exit(1)
}
console.log(`built: ${present.join(', ')}`)

const { stage, args } = asked(process.argv.slice(2))
const none = { env: { TENON_KUBERNETES_ABSENT: 'see `npm run test:cluster`' }, stop: async () => undefined }
const { startCluster } = await import('./kubernetes-cluster.mjs')
const cluster = stage === 'cluster' ? await startCluster() : none
const PATH = [process.env.PATH, toolsFolder].join(delimiter)
const env = { ...process.env, ...cluster.env, PATH, TENON_TEST_STAGE: stage }
// The cluster has processes of its own: a stopped run takes it down too.
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => undefined)
const until = Number(process.env.TENON_STAGE_ENDS ?? Infinity)
const results = await runTests({ root, args, env, retry: process.env.CI === 'true', until })
process.exitCode = results.code
await cluster.stop()
// Each once: a file that is tried again tells the same again.
const absent = [...new Map([...results.absent, ...(await absentParts())])]
if (stage === 'cluster' && env.TENON_KUBERNETES_ABSENT)
  absent.push(['Kubernetes', env.TENON_KUBERNETES_ABSENT])
for (const needs of stage === 'everyday' ? Object.values(STAGES) : [])
  console.log(`Not among these: what needs ${needs}.`)
if (absent.length === 0) console.log('No real part is absent: nothing was skipped for one.')
for (const [name, why] of absent) console.log(`skipped here: what needs ${name} (${why})`)
report({ ...results, absent })

function asked(args) {
  if (args[0] !== '--stage') return { stage: 'everyday', args }
  const [, stage, ...rest] = args
  if (stage && Object.hasOwn(STAGES, stage)) return { stage, args: rest }
  console.error(`There is no stage ${stage ?? ''}. Stages: ${Object.keys(STAGES).join(', ')}.`)
  process.exit(2)
}

/** The real parts that some tests need, each with a command that ends with 0 where the part is usable. */
async function absentParts() {
  const parts = [
    ['bwrap', [['bwrap', '--ro-bind', '/', '/', '--unshare-pid', 'true']]],
    ['dockerd', [['dockerd', '--version']]],
    ['podman', [['podman', '--version']]],
    ['skopeo', [['skopeo', '--version']]],
    ['terraform', [['terraform', 'version']]],
    ['docker-registry', [['docker-registry', '--version']]],
    ['cosign', [['cosign', 'version']]],
    ['oras', [['oras', 'version']]],
    ['OpenTofu', [['tofu', 'version']]],
    ['buildah', [['buildah', '--version']]],
    ['moto_server', [['moto_server', '--help']]],
    ['helm3, helm4 and kubectl', [['kubectl', 'version', '--client']]],
  ]
  const found = await Promise.all(parts.map(async ([name, commands]) => [name, await whyAbsent(commands)]))
  return found.filter(([, why]) => why !== undefined)
}

async function whyAbsent(commands) {
  const codes = await Promise.all(
    commands.map(([program, ...args]) => run(program, args, { stdio: 'ignore', timeout: 20_000 })),
  )
  if (codes.includes(0)) return undefined
  return codes.every((code) => code === 127) ? 'not installed' : 'installed, but it does not work here'
}

function run(program, args, options) {
  return new Promise((done) => {
    const child = spawn(program, args, { cwd: root, env, ...options })
    child.on('error', () => done(127))
    child.on('close', (code) => done(code ?? 1))
  })
}
