import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import type { TestEngine } from '@tenon/agent/testing/engines'
import { createRegistryClient, startRegistryServer } from '@tenon/oci'
import { pushBusybox } from '@tenon/plugins/testing/kubernetes'
import { build } from 'esbuild'
import { startProgram, type Program } from './program.ts'
import { createWorld } from './world.ts'

const run = promisify(execFile)
/** Where Docker's own bridge is, in the network of an engine of its own. */
const BRIDGE = '172.17.0.1'

/** A registry of somebody else's, which anybody may read. */
const UPSTREAM = `
import { startRegistryServer } from '@tenon/oci'
const { url } = await startRegistryServer({
  dir: process.env.UPSTREAM_DIR, port: 0, host: '127.0.0.1', authorize: async () => ({ ok: true }),
})
console.log(url)
process.on('SIGTERM', () => process.exit(0))
`

/** A server, a build agent, an upstream registry, and an install whose agent runs jobs as it is told to. */
export interface Ground {
  dir: string
  /** The address of an image that anybody may pull, tagged 1. */
  image: string
  /** `tenon`, as a person runs it; what it printed. It throws with all of that when it does not end with 0. */
  tenon(...args: string[]): Promise<string>
  /** The files of the app's folder; scripts below `operations/` are executable. */
  write(files: Record<string, string>): void
  startInstallAgent(name: string, env: Record<string, string>): Promise<void>
  close(): Promise<void>
}

/** With an engine, all of it runs in the engine's network, so that containers reach what they must. */
export async function layGround(root: string, dist: string, engine?: TestEngine): Promise<Ground> {
  const dir = mkdtempSync(join(tmpdir(), 'tenon-same-'))
  const host = engine === undefined ? '127.0.0.1' : BRIDGE
  const within = engine?.beside()
  const programs: Program[] = []
  const keep = (program: Program) => {
    programs.push(program)
    return program
  }
  const world = createWorld({ dir, dist, within, onStart: keep })
  const start = (name: string, bundle: string, args: string[], env: Record<string, string> = {}) =>
    keep(
      startProgram({
        name,
        bundle,
        args,
        env: { PATH: process.env['PATH'] ?? '', ...env },
        logFile: join(world.folder('log'), `${name}.log`),
        within,
      }),
    )
  const server = await world.startServer({ env: { TENON_HOST: host } })
  const owner = { PATH: process.env['PATH'], TENON_URL: server.url, TENON_TOKEN: server.token, HOME: dir }
  const command = [...(within ?? []), process.execPath, join(dist, 'cli.mjs')]
  const tenon = (...args: string[]) => runTenon(command, args, owner)
  const startAgent = async (name: string, token: string, env: Record<string, string>) => {
    writeFileSync(join(world.folder(name), 'join-token'), token.trim(), { mode: 0o600 })
    await world.startAgent(server, { name, role: 'build', env })
  }
  await startAgent('build-agent', await tenon('agent', 'join-token', '--role', 'build'), {})
  const upstream = await startUpstream(root, dir, start)
  return {
    dir,
    image: `${new URL(upstream).host}/busybox`,
    tenon,
    write: (files) => writeFiles(join(dir, 'app'), files),
    async startInstallAgent(name, env) {
      const keyFile = join(dir, 'registry.key')
      writeFileSync(keyFile, randomBytes(32).toString('base64url'), { mode: 0o600 })
      const everywhere = engine === undefined ? host : '0.0.0.0'
      const place = ['--dir', join(dir, 'registry'), '--port', '0', '--host', everywhere]
      const registry = start('registry', join(dist, 'registry.mjs'), [...place, '--key-file', keyFile])
      const { port } = new URL(/listens at (\S+)/.exec(await registry.firstLine())![1]!)
      const own = {
        TENON_REGISTRY_URL: `http://${host}:${port}`,
        // Jobs come from their containers; the engine speaks plain HTTP to its own machine only.
        ...(engine === undefined ? {} : { TENON_REGISTRY_NODE_ADDRESS: `127.0.0.1:${port}` }),
        TENON_REGISTRY_KEY_FILE: keyFile,
        ...env,
      }
      await startAgent('agent', await tenon('installs', 'join-token', name), own)
    },
    async close() {
      for (const program of programs.toReversed()) await program.stop()
      rmSync(dir, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}

type Start = (name: string, bundle: string, args: string[], env?: Record<string, string>) => Program

async function runTenon(command: string[], args: string[], env: NodeJS.ProcessEnv): Promise<string> {
  const [program = '', ...before] = command
  return run(program, [...before, ...args], { env, maxBuffer: 1 << 24 }).then(
    ({ stdout }) => stdout,
    ({ stdout, stderr }: { stdout: string; stderr: string }) => {
      throw new Error(`tenon ${args.join(' ')}: ${stdout}${stderr}`)
    },
  )
}

/** Filled from here, since an engine's network is not reached from outside it. */
async function startUpstream(root: string, dir: string, start: Start): Promise<string> {
  const store = join(dir, 'upstream')
  const filling = await startRegistryServer({
    dir: store,
    port: 0,
    host: '127.0.0.1',
    authorize: async () => ({ ok: true }),
  })
  const client = createRegistryClient({ url: filling.url, credentials: async () => undefined })
  const folder = async (files: Record<string, string>) => {
    const path = mkdtempSync(join(dir, 'image-'))
    writeFiles(path, files)
    return path
  }
  const digest = await pushBusybox({ folder }, { client }, 'busybox')
  const found = await client.getManifest('busybox', digest)
  await client.putManifest('busybox', '1', found.mediaType, found.bytes)
  await filling.close()
  const bundle = join(dir, 'upstream.mjs')
  const require = "import { createRequire as r } from 'node:module'; const require = r(import.meta.url);"
  await build({
    stdin: { contents: UPSTREAM, resolveDir: join(root, 'packages/dev-env/src'), loader: 'ts' },
    outfile: bundle,
    bundle: true,
    platform: 'node',
    format: 'esm',
    logLevel: 'error',
    banner: { js: require },
  })
  return start('upstream', bundle, [], { UPSTREAM_DIR: store }).firstLine()
}

function writeFiles(folder: string, files: Record<string, string>): void {
  for (const [name, text] of Object.entries(files)) {
    const path = join(folder, name)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, text)
    if (name.includes('operations/')) chmodSync(path, 0o755)
  }
}
