// One real Kubernetes for all tests of a run, where this machine can have one. As a program: `node scripts/kubernetes-cluster.mjs
// COMMAND…` runs a command with it. Words: TENON_KUBERNETES_TOOLS names the folder with `build`, `up`, `load` and `down`.
import { execFile, spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
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
    const { stdout } = await run(join(tools, 'up'), [dir])
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
  if (process.getuid?.() !== 0) return 'only root can start a cluster'
  const cache = process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache')
  const bin = process.env.TENON_KUBERNETES_BIN ?? join(cache, 'tenon-kubernetes/1.20.2/bin')
  const isBuilt = existsSync(bin) && readdirSync(bin).includes('kubelet')
  return isBuilt ? undefined : `its programs are not built yet: ${join(tools, 'build')} does that`
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
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
