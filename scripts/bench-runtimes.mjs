// npm run bench:runtimes: what Tenon adds to a job on each runtime, against the bare engine. `--help` lists the arguments.
import { spawnSync } from 'node:child_process'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ensureInstalled } from './ensure-installed.mjs'

ensureInstalled()
const { build } = await import('esbuild')
const root = dirname(dirname(fileURLToPath(import.meta.url)))
const folder = join(root, 'dist/bench')
await build({
  entryPoints: {
    runtimes: join(root, 'bench/runtimes.ts'),
    'runtimes-agent': join(root, 'packages/agent/src/main.ts'),
  },
  outdir: folder,
  outExtension: { '.js': '.mjs' },
  bundle: true,
  platform: 'node',
  target: 'node20.19',
  format: 'esm',
  logLevel: 'error',
  external: ['esbuild'],
  banner: { js: "import { createRequire as r } from 'node:module'; const require = r(import.meta.url);" },
})
const { startCluster } = await import('./kubernetes-cluster.mjs')
const only = process.argv.join(' ').match(/--only[ =](\S+)/)?.[1] ?? 'kubernetes'
const wantsCluster = only.split(',').includes('kubernetes') && !process.argv.includes('--help')
const cluster = wantsCluster ? await startCluster() : { env: {}, stop: async () => undefined }
// The cluster has processes of its own: a stopped run takes it down too.
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => undefined)
const at = (name) => join(folder, `${name}.mjs`)
const args = [at('runtimes'), '--agent', at('runtimes-agent'), '--root', root, ...process.argv.slice(2)]
const env = { ...process.env, ...cluster.env }
process.exitCode = spawnSync(process.execPath, args, { stdio: 'inherit', env }).status ?? 1
await cluster.stop()
