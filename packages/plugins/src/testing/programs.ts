import { spawn, type ChildProcess } from 'node:child_process'
import { copyFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

const ROOT = fileURLToPath(new URL('../../../..', import.meta.url))

const PROGRAMS = {
  job: 'packages/plugins/src/job/main.ts',
  registry: 'packages/oci/src/main.ts',
  'local-host': 'packages/local-host/src/main.ts',
  'tenon-host': 'packages/local-host/src/tenon-host.ts',
}

/** By the name of the plugin, its folder. */
const PLUGINS = {
  script: 'script',
  'sandbox-local': 'sandbox-local',
  action: 'action',
  container_image: 'container-image',
  docker_build: 'docker-build',
  helm_chart: 'helm-chart',
  kubernetes_manifest: 'kubernetes-manifest',
  kubernetes_secrets: 'kubernetes-secrets',
  plugin: 'plugin-build',
  pulumi: 'pulumi',
  terraform_module: 'terraform-module',
}
export type PluginName = keyof typeof PLUGINS

/** The programs as they are shipped: one file each. */
export async function bundlePrograms(outdir: string): Promise<void> {
  await bundle(PROGRAMS, outdir)
}

/** A plugin as it is shipped: a folder with one file and plugin.json. */
export async function bundlePlugin(name: PluginName, outdir: string): Promise<void> {
  const folder = `packages/plugins/src/${PLUGINS[name]}`
  await bundle({ main: `${folder}/plugin.ts` }, outdir)
  await copyFile(join(ROOT, folder, 'plugin.json'), join(outdir, 'plugin.json'))
}

async function bundle(programs: Record<string, string>, outdir: string): Promise<void> {
  const require = "import { createRequire as r } from 'node:module'; const require = r(import.meta.url);"
  await build({
    entryPoints: Object.fromEntries(Object.entries(programs).map(([name, path]) => [name, join(ROOT, path)])),
    outdir,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    platform: 'node',
    target: 'node20.19',
    format: 'esm',
    logLevel: 'error',
    banner: { js: require },
  })
}

export interface RunningProgram {
  child: ChildProcess
  output(): string
  ended: Promise<number | null>
}

/** `under` is a program with its arguments that starts it, such as one that confines. */
export function startProgram(
  args: string[],
  env: Record<string, string>,
  cwd: string,
  under: string[] = [],
): RunningProgram {
  const path = `${dirname(process.execPath)}:/usr/local/bin:/usr/bin:/bin`
  const [program, ...before] = [...under, process.execPath]
  const child = spawn(program ?? process.execPath, [...before, ...args], {
    cwd,
    env: { PATH: path, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()))
  const ended = new Promise<number | null>((resolve) => child.on('close', resolve))
  return { child, output: () => output, ended }
}

/** Waits for a fact, with a deadline that names it. */
export async function until<T>(
  what: string,
  look: () => T | Promise<T>,
  seconds = 60,
): Promise<NonNullable<T>> {
  const deadline = Date.now() + seconds * 1000
  for (;;) {
    const seen = await look()
    if (seen) return seen
    if (Date.now() > deadline) throw new Error(`waited in vain for ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}
