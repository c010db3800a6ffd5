import { keptManifest } from '@tenon/core'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Scenario } from '../scenario.ts'
import type { Stage } from '../stage.ts'
import { assert } from './shared.ts'

const WALLS = ['--ro-bind', '/', '/', '--unshare-net', 'true']
const absent =
  spawnSync('bwrap', WALLS, { stdio: 'ignore' }).status === 0 ? undefined : 'bubblewrap does not work here'

/** What a job tries: straight, and as tools do that read the proxy from their environment. */
const reaching = (places: string[]) => `exec node - <<'PROBE'
const net = require('node:net'), http = require('node:http')
const straight = (host, port) => new Promise((done) => {
  const socket = net.connect({ host, port, timeout: 3000 })
  socket.on('connect', () => (socket.destroy(), done('reached')))
  for (const end of ['error', 'timeout']) socket.on(end, () => (socket.destroy(), done('closed')))
})
const proxied = (place) => new Promise((done) => {
  const proxy = process.env.HTTPS_PROXY
  if (!proxy) return done('no proxy')
  const { hostname, port } = new URL(proxy)
  const request = http.request({ host: hostname, port, method: 'CONNECT', path: place })
  request.on('connect', (answer, socket) => (socket.destroy(), done(String(answer.statusCode))))
  request.on('error', () => done('broken')).end()
})
void (async () => {
  for (const place of ${JSON.stringify(places)}) {
    const [host, port] = place.split(':')
    console.log('probe', place, await straight(host, port), await proxied(place))
  }
})()
PROBE`

const METADATA = '169.254.169.254:80'
const SSH = '127.0.0.1:22'
const postgres = () => new URL(process.env['TENON_TEST_POSTGRES_URL'] ?? '')
const serverOf = ({ server }: Stage) => new URL(server.url).host
const wentWell = {
  run: 'succeeded',
  jobs: {
    'sync:web': { status: 'succeeded', reason: 'completed' },
    'deploy:web': { status: 'succeeded', reason: 'completed' },
  },
} as const

/** Real jobs in a network of their own: registry and job API come in, nothing else of the machine does. */
export const networks: Scenario[] = [
  {
    name: 'jobs with a closed network sync and deploy, and reach no Postgres, server, metadata or other port',
    absent,
    app: { web: {} },
    script: (stage) => reaching([postgres().host, serverOf(stage), METADATA, SSH]),
    // As an older document has it.
    agent: { runtime: 'process', env: { TENON_JOB_NETWORKS: 'action=none,deploy=internal' } },
    expect: wentWell,
    async also(stage) {
      const closed = [postgres().host, serverOf(stage), METADATA, SSH].map((place) => `${place} closed 403`)
      await probed(stage, closed)
      const { items } = await stage.client.call('agents.list', {})
      const warnings = items.flatMap(({ runtime }) => runtime?.warnings ?? [])
      const isTold = warnings.some((warning) => warning.includes('none, which is now called internal'))
      assert(isTold, `the agent does not warn of the old spelling: ${warnings.join('; ')}`)
      await says(stage, /error network_refused: This job may not reach 169\.254\.169\.254:80/)
      const agentLog = readFileSync(join(stage.dir, 'log', 'agent.log'), 'utf8')
      assert(agentLog.includes('a job may not connect there'), 'the agent’s log does not tell of it')
    },
  },
  {
    name: 'a component that declares what it calls reaches that, and nothing else of the machine',
    absent,
    app: {
      web: {
        settings: () => ({ egress: [{ host: postgres().hostname, port: Number(postgres().port) }] }),
      },
    },
    script: (stage) => reaching([postgres().host, serverOf(stage), METADATA]),
    agent: { runtime: 'process' },
    expect: wentWell,
    async also(stage) {
      const { host } = postgres()
      const found = [`${host} reached 200`, `${serverOf(stage)} closed 403`, `${METADATA} closed 403`]
      await probed(stage, found)
      await says(stage, new RegExp(`its network is egress \\(the job API, its registry, ${host}\\)`))
      const id = await stage.jobId('deploy:web')
      const { text } = await stage.client.call('jobs.manifest', { params: { id } })
      const { network, requires } = keptManifest(text)
      assert(network.mode === 'egress' && network.names.join() === host, `the manifest says ${text}`)
      assert(
        requires.some(({ feature }) => feature === 'job-networks'),
        'an agent that knows no networks may have it',
      )
    },
  },
]

async function says(stage: Stage, words: RegExp): Promise<void> {
  const log = await stage.log(await stage.jobId('deploy:web'))
  assert(words.test(log), `the job does not say ${words}: ${log}`)
}

async function probed(stage: Stage, expected: string[]): Promise<void> {
  const log = await stage.log(await stage.jobId('deploy:web'))
  const found = [...log.matchAll(/^probe (.*)$/gm)].map(([, line]) => line)
  assert(found.join('\n') === expected.join('\n'), `the job found: ${found.join(', ')}\n${log}`)
}
