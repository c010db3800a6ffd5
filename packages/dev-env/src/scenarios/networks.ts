import { keptManifest, type ComponentHealth, type ComponentSettings } from '@tenon/core'
import { terraformEngines } from '@tenon/plugins/testing/tools'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { networkInterfaces } from 'node:os'
import { dirname, join } from 'node:path'
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

const engine = terraformEngines.find(({ program }) => program !== undefined)?.program
const withoutEngine = absent ?? (engine === undefined ? 'neither tofu nor terraform is here' : undefined)
const MODULE = 'resource "terraform_data" "it" {}'
/** A closed network, of which the name does not matter. */
const CLOSED: ComponentSettings = { egress: [{ host: 'api.example.com', port: 443 }] }

/** The way that the local sandbox has it: a component says where its service is, on this machine. */
const serving = (stage: Stage) => {
  const url = `${stage.server.url}/healthz`
  const outputs = {
    url: { value: url, sensitive: false },
    place: { value: serverOf(stage), sensitive: false },
  }
  const given = `printf '%s' '${JSON.stringify(outputs)}' > "$TENON_OUT/outputs.json"`
  return `[ "$TENON_COMPONENT" = web ] && { ${given}; exit; }`
}

/** Where the machine has an address that is no loopback, nothing of the job's own answers there. */
const elsewhere = ({ server }: Stage): ComponentHealth['probes'] => {
  const { port } = new URL(server.url)
  const addresses = Object.values(networkInterfaces()).flatMap((each) => each ?? [])
  const found = addresses.find(({ family, internal }) => family === 'IPv4' && !internal)
  if (found === undefined) return []
  const place = `${found.address}:${port}`
  return [
    { name: 'named', type: 'http', url: `http://${place}/healthz` },
    { name: 'named port', type: 'tcp', url: place },
  ]
}

const READS = `node -e '
const { url } = JSON.parse(require("node:fs").readFileSync(process.env.TENON_DEPENDENCIES + "/web.json", "utf8"))
fetch(url.value).then(async (answer) => console.log("read", answer.status, await answer.text()))
'`

const probing = (...probes: ComponentHealth['probes']): ComponentSettings => ({
  ...CLOSED,
  health: { probes, blockDeploy: true, stabilizationSeconds: 0 },
})

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
  {
    name: 'a component that declares what it calls reads an address of the component that it depends on',
    absent,
    app: { web: {}, worker: { needs: ['web'], settings: () => CLOSED } },
    script: (stage) => `${serving(stage)}\n${READS}\n${reaching([serverOf(stage), postgres().host])}`,
    agent: { runtime: 'process' },
    expect: { run: 'succeeded', jobs: { 'deploy:worker': { status: 'succeeded', reason: 'completed' } } },
    async also(stage) {
      await probed(stage, [`${serverOf(stage)} reached 200`, `${postgres().host} closed 403`], 'worker')
      await says(stage, /^read 200 \{"status":"ok"\}$/m, 'worker')
    },
  },
  {
    name: 'probes of a job with a closed network reach what they name, and the service that an output names',
    absent: withoutEngine,
    server: { TENON_HOST: '0.0.0.0' },
    app: {
      web: {},
      api: {
        needs: ['web'],
        module: MODULE,
        settings: (stage) =>
          probing(
            ...elsewhere(stage),
            { name: 'front', type: 'http', url: '{{ .nuon.components.web.outputs.url }}' },
            { name: 'port', type: 'tcp', url: 'tcp://{{ .nuon.components.web.outputs.place }}' },
          ),
      },
    },
    script: serving,
    agent: { runtime: 'process', env: { TENON_TOOL_PATHS: dirname(engine ?? '') } },
    expect: { run: 'succeeded', jobs: { 'deploy:api': { status: 'succeeded', reason: 'completed' } } },
  },
  {
    name: 'a probe of a job with a closed network to what nothing declares is refused in words',
    absent: withoutEngine,
    app: {
      api: {
        module: MODULE,
        settings: () => probing({ name: 'database', type: 'tcp', url: `tcp://${postgres().host}` }),
      },
    },
    script: serving,
    agent: { runtime: 'process', env: { TENON_TOOL_PATHS: dirname(engine ?? '') } },
    expect: {
      run: 'failed',
      jobs: {
        'deploy:api': {
          status: 'failed',
          reason: 'exit',
          exitCode: 1,
          message: /the probe database failed: .* leads to .*, an address of this machine/,
        },
      },
    },
  },
]

async function says(stage: Stage, words: RegExp, component = 'web'): Promise<void> {
  const log = await stage.log(await stage.jobId(`deploy:${component}`))
  assert(words.test(log), `the job does not say ${words}: ${log}`)
}

async function probed(stage: Stage, expected: string[], component = 'web'): Promise<void> {
  const log = await stage.log(await stage.jobId(`deploy:${component}`))
  const found = [...log.matchAll(/^probe (.*)$/gm)].map(([, line]) => line)
  assert(found.join('\n') === expected.join('\n'), `the job found: ${found.join(', ')}\n${log}`)
}
