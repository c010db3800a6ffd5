// npm run bench:plan: what planning a change for a fleet costs, and rendering templates.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { ensureInstalled } from './ensure-installed.mjs'

ensureInstalled()
const { build } = await import('esbuild')
const root = dirname(dirname(fileURLToPath(import.meta.url)))
const folder = mkdtempSync(join(tmpdir(), 'tenon-bench-'))
try {
  const outfile = join(folder, 'plan.mjs')
  await build({
    entryPoints: [join(root, 'bench/plan.ts')],
    outfile,
    bundle: true,
    platform: 'node',
    format: 'esm',
    logLevel: 'error',
  })
  await import(pathToFileURL(outfile).href)
} finally {
  rmSync(folder, { recursive: true, force: true })
}
