import { createClient, type Client } from '@tenon/protocol'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { startProgram, type Program } from './program.ts'

/** Folders with bundles. */
export interface Dists {
  dist: string
  /** Of what runs on the machines of agents, where its version is not the server's. */
  agentDist?: string
}

/** The whole of Tenon on one machine, over real sockets: each part a process of its own, all state under `dir`. */
export interface WorldOptions extends Dists {
  dir: string
  /** Added to every program's environment. */
  env?: Record<string, string>
  /** What every program is started by, such as nsenter with its arguments. */
  within?: readonly string[] | undefined
  onStart?: (program: Program) => void
}

export interface ServerHandle {
  program: Program
  url: string
  token: string
  client: Client
}

export interface World {
  startServer(options?: ServerOptions): Promise<ServerHandle>
  /** Enrols with a join token of `server` when its folder is new; otherwise goes on with the identity it has. */
  startAgent(server: ServerHandle, options: AgentOptions): Promise<Program>
  /** `lent`: the folders by which its owner lets somebody in. */
  startLocalHost(name?: string): Promise<{ program: Program; dir: string; lent: string[] }>
  folder(name: string): string
}

interface ServerOptions {
  name?: string
  port?: number
  env?: Record<string, string>
  /** Of another version than the world's. */
  dist?: string
}

export interface AgentOptions {
  name: string
  role: 'build' | 'setup' | { install: string }
  runtime?: 'process' | 'docker' | 'fake'
  slots?: number
  /** Reach the server through another address, such as the tapped wire. */
  serverUrl?: string
  /** Of another version than the world's. */
  dist?: string
  env?: Record<string, string>
}

export function createWorld(options: WorldOptions): World {
  const { dir, agentDist = options.dist } = options
  const folder = (name: string) => {
    const path = join(dir, name)
    mkdirSync(path, { recursive: true, mode: 0o700 })
    return path
  }
  const base = { ...inherited(), ...options.env }
  const launch = (name: string, bundle: string, env: Record<string, string>, args: string[] = []) => {
    const program = startProgram({
      name,
      bundle,
      args,
      env: { ...base, ...env },
      logFile: join(folder('log'), `${name}.log`),
      within: options.within,
    })
    options.onStart?.(program)
    return program
  }
  return {
    folder,
    async startServer({ name = 'server', port = 0, env = {}, dist = options.dist } = {}) {
      const data = folder(name)
      const program = launch(name, join(dist, 'server.mjs'), {
        TENON_DATA_DIR: data,
        TENON_PORT: String(port),
        ...env,
      })
      const { url } = JSON.parse(await program.firstLine()) as { url: string }
      const token = readFileSync(join(data, 'owner.token'), 'utf8').trim()
      return { program, url, token, client: createClient({ url, token }) }
    },
    async startAgent(server, agent) {
      const data = folder(agent.name)
      const env: Record<string, string> = {
        TENON_SERVER_URL: agent.serverUrl ?? server.url,
        TENON_AGENT_DIR: data,
        ...agent.env,
      }
      if (agent.runtime) env['TENON_RUNTIME'] = agent.runtime
      if (agent.slots) env['TENON_SLOTS'] = String(agent.slots)
      const tokenFile = join(data, 'join-token')
      if (!existsSync(join(data, 'identity.json')) && !existsSync(tokenFile))
        writeFileSync(tokenFile, await joinToken(server, agent.role), { mode: 0o600 })
      return launch(agent.name, join(agent.dist ?? agentDist, 'agent.mjs'), {
        TENON_JOIN_TOKEN_FILE: tokenFile,
        ...env,
      })
    },
    async startLocalHost(name = 'customer') {
      const data = folder(name)
      const program = launch('local-host', join(agentDist, 'local-host.mjs'), {}, ['--dir', data])
      const adminSocket = await program.firstLine()
      return { program, dir: data, lent: [data, dirname(adminSocket)] }
    },
  }
}

async function joinToken(server: ServerHandle, role: AgentOptions['role']): Promise<string> {
  const answer =
    typeof role === 'string'
      ? await server.client.call('agents.joinToken', { body: { role } })
      : await server.client.call('installs.joinToken', { params: { ref: role.install } })
  return answer.joinToken
}

/** What a program may see of this process's environment. */
function inherited(): Record<string, string> {
  const names = [
    'PATH',
    'HOME',
    'TMPDIR',
    'LANG',
    'HTTPS_PROXY',
    'HTTP_PROXY',
    'NO_PROXY',
    'DATABASE_URL',
    'NODE_EXTRA_CA_CERTS',
    'SSL_CERT_FILE',
    'TENON_JOB_NETWORKS',
    'TENON_LOG_LEVEL',
  ]
  return Object.fromEntries(
    names.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])),
  )
}
