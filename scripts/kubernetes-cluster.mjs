// One real Kubernetes for all tests of a run, where this machine can have one. As a program: `node scripts/kubernetes-cluster.mjs
// COMMAND…` runs a command with it, `--build` only makes its programs. Words: TENON_KUBERNETES_TOOLS names the folder with `build`, `up`, `load` and `down`.
import { execFile, spawn } from 'node:child_process'
import { existsSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)
const root = dirname(dirname(fileURLToPath(import.meta.url)))

/**
 * What tests find a cluster by, and how it ends. A cluster that KUBECONFIG names is used as it is.
 * @returns {Promise<{ env: Record<string, string>, stop: () => Promise<void> }>}
 */
export async function startCluster() {
  if (process.env.KUBECONFIG) return { env: {}, stop: async () => undefined }
  const tools = findTools()
  const absent = whyNot(tools)
  if (absent !== undefined) return { env: { TENON_KUBERNETES_ABSENT: absent }, stop: async () => undefined }
  const dir = mkdtempSync(join(tmpdir(), 'tenon-kubernetes-'))
  try {
    // It builds what is not built yet, which takes minutes: its progress is shown.
    const starting = run(join(tools, 'up'), [dir])
    starting.child.stderr.pipe(process.stderr)
    const { stdout } = await starting
    const told = Object.fromEntries(
      stdout
        .trim()
        .split('\n')
        .map((line) => line.split(/=(.*)/)),
    )
    return {
      env: {
        KUBECONFIG: told.KUBECONFIG,
        TENON_KUBERNETES_LOAD: join(tools, 'load'),
        TENON_KUBERNETES_HOST_IP: told.HOST_IP,
      },
      stop: async () => {
        await run(join(tools, 'down'), [dir])
      },
    }
  } catch (error) {
    return {
      env: { TENON_KUBERNETES_ABSENT: `it did not start: ${error.message}` },
      stop: async () => undefined,
    }
  }
}

/** The folder of the tools: named, or `shared/tools/kubernetes` beside a folder above this one. */
export function findTools() {
  if (process.env.TENON_KUBERNETES_TOOLS) return process.env.TENON_KUBERNETES_TOOLS
  for (let folder = dirname(root); ; folder = dirname(folder)) {
    const tools = join(folder, 'shared/tools/kubernetes')
    if (existsSync(join(tools, 'up'))) return tools
    if (folder === dirname(folder)) return undefined
  }
}

function whyNot(tools) {
  if (tools === undefined) return 'no KUBECONFIG, and no tools that make a cluster'
  return process.getuid?.() === 0 ? undefined : 'only root can start a cluster'
}

/** Builds what a cluster of our own needs, which takes minutes the first time and nothing later. */
async function build() {
  const tools = findTools()
  const absent = process.env.KUBECONFIG ? undefined : whyNot(tools)
  if (absent !== undefined) console.error(`no Kubernetes here: ${absent}`)
  if (absent !== undefined || process.env.KUBECONFIG) return absent === undefined ? 0 : 1
  const building = run(join(tools, 'build'))
  building.child.stderr.pipe(process.stderr)
  return building.then(
    () => 0,
    ({ message }) => {
      console.error(`no Kubernetes here: ${message.trim().split('\n').at(-1)}`)
      return 1
    },
  )
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  if (process.argv[2] === '--build') process.exit(await build())
  const cluster = await startCluster()
  const [program, ...args] = process.argv.slice(2)
  const child = spawn(program ?? 'true', args, { stdio: 'inherit', env: { ...process.env, ...cluster.env } })
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => child.kill(signal))
  process.exitCode = await new Promise((done) => {
    child.on('error', () => done(127))
    child.on('close', (code) => done(code ?? 1))
  })
  await cluster.stop()
}
