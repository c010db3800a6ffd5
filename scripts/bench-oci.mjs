// node scripts/bench-oci.mjs [--rounds 3] [--layer-mb 20] [--parallel 50]: our copies and registry against skopeo and docker-registry.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ensureInstalled } from './ensure-installed.mjs'

ensureInstalled()
const { build } = await import('esbuild')
const root = dirname(dirname(fileURLToPath(import.meta.url)))
const folder = mkdtempSync(join(tmpdir(), 'tenon-bench-'))
try {
  const entries = {
    bench: 'bench/oci.ts',
    worker: 'bench/oci-worker.ts',
    registry: 'packages/oci/src/main.ts',
  }
  await build({
    entryPoints: Object.fromEntries(Object.entries(entries).map(([name, path]) => [name, join(root, path)])),
    outdir: folder,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    platform: 'node',
    format: 'esm',
    logLevel: 'error',
    banner: { js: "import { createRequire as r } from 'node:module'; const require = r(import.meta.url);" },
  })
  const at = (name) => join(folder, `${name}.mjs`)
  const args = [at('bench'), '--worker', at('worker'), '--registry', at('registry'), ...process.argv.slice(2)]
  process.exitCode = spawnSync(process.execPath, args, { stdio: 'inherit' }).status ?? 1
} finally {
  rmSync(folder, { recursive: true, force: true })
}
