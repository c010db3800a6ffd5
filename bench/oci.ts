import { anonymous, createRegistryClient, createTokenIssuer, pushArtifact } from '@tenon/oci'
import type { Digest } from '@tenon/oci'
import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { createParts } from './oci-parts.ts'
import type { Cost, Server } from './oci-parts.ts'
import { median } from './report.ts'

const HELP = `npm run bench:oci -- [--rounds 3] [--only cold,changed,nothing,many,push,pull,installs] [--layer-mb 20]
                     [--parallel 50] [--json] [--strict]
  --strict   exit code 1 when a goal is missed
Our copy engine and registry against skopeo and docker-registry: both sides in one run, in turns, each first every other
round; medians. Processor time is user and system together, of the measured process and of the registries it spoke to.`

const CASES = ['cold', 'changed', 'nothing', 'many', 'push', 'pull', 'installs']
const { values } = parseArgs({
  options: {
    worker: { type: 'string', default: '' },
    registry: { type: 'string', default: '' },
    only: { type: 'string', default: CASES.join(',') },
    rounds: { type: 'string', default: '3' },
    'layer-mb': { type: 'string', default: '20' },
    parallel: { type: 'string', default: '50' },
    json: { type: 'boolean', default: false },
    strict: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
})
const WORKER = values.worker
const [ROUNDS, LAYER_MB, PARALLEL] = [values.rounds, values['layer-mb'], values.parallel].map(Number) as [
  number,
  number,
  number,
]
const only = values.only.split(',')
const LAYERS = 10
const MB = 1_000_000
/** Throughput is what a registry keeps up, not how it starts. */
const PULLS = 5

const dir = await mkdtemp(join(tmpdir(), 'tenon-bench-oci-'))
const parts = createParts(dir, values.registry)

const ours = (from: string, to: string, digest: Digest, target = 'copied', times = '1') =>
  parts.run(process.execPath, [WORKER, 'copy', from, 'bench', to, target, digest, times])

const skopeo = (from: string, to: string, digest: Digest, target = 'copied') =>
  parts.run('skopeo', [
    '--insecure-policy',
    'copy',
    '--quiet',
    '--preserve-digests',
    '--src-tls-verify=false',
    '--dest-tls-verify=false',
    `docker://${new URL(from).host}/bench@${digest}`,
    `docker://${new URL(to).host}/${target}:bench`,
  ])

const pushImage = async (url: string, layers: Buffer[], credentials = anonymous): Promise<Digest> => {
  const client = createRegistryClient({ url, credentials })
  const type = 'application/vnd.oci.image.config.v1+json'
  const config = { architecture: 'amd64', os: 'linux', config: {}, rootfs: { type: 'layers', diff_ids: [] } }
  const { digest } = await pushArtifact({
    client,
    repository: 'bench',
    artifactType: type,
    config: { mediaType: type, bytes: Buffer.from(JSON.stringify(config)) },
    layers: layers.map((bytes) => ({ mediaType: 'application/vnd.oci.image.layer.v1.tar', bytes })),
  })
  return digest
}

const makeLayers = (bytes: number): Buffer[] => Array.from({ length: LAYERS }, () => randomBytes(bytes))

interface Row {
  what: string
  /** Least times as fast that the work must be. */
  goal: number
  ours: Cost[]
  theirs: Cost[]
}
const rows: Row[] = []

/** Each round runs both sides one after the other, in turn first, on a machine that others may use too. */
const compare = async (
  [name, what, goal]: [name: string, what: string, goal: number],
  one: () => Promise<Cost>,
  other: () => Promise<Cost>,
  rounds = ROUNDS,
): Promise<void> => {
  if (!only.includes(name)) return
  const row: Row = { what, goal, ours: [], theirs: [] }
  for (let round = 0; round < rounds; round++) {
    const sides = [async () => row.ours.push(await one()), async () => row.theirs.push(await other())]
    for (const side of round % 2 === 0 ? sides : sides.toReversed()) await side()
  }
  rows.push(row)
}

/** On a target of its own each time, prepared and taken away outside of what is measured. */
const onFresh =
  (
    work: (to: string) => Promise<Cost>,
    prepare?: (to: string) => Promise<unknown>,
    start = parts.startTheirs,
  ) =>
  async (): Promise<Cost> => {
    const target = await start()
    try {
      await prepare?.(target.url)
      return await work(target.url)
    } finally {
      await target.stop()
    }
  }

const benchCopies = async (source: Server, layers: Buffer[], digest: Digest): Promise<void> => {
  const from = source.url
  await compare(
    ['cold', `cold copy, ${LAYERS * LAYER_MB} MB`, 1.5],
    onFresh((to) => ours(from, to, digest)),
    onFresh((to) => skopeo(from, to, digest)),
  )
  const changed = await pushImage(from, [...layers.slice(1), randomBytes(LAYER_MB * MB)])
  const seed = (to: string) => skopeo(from, to, digest)
  await compare(
    ['changed', 'one layer changed', 1],
    onFresh((to) => ours(from, to, changed), seed),
    onFresh((to) => skopeo(from, to, changed), seed),
  )
  await compare(
    ['nothing', 'nothing to do', 1],
    onFresh((to) => ours(from, to, digest), seed),
    onFresh((to) => skopeo(from, to, digest), seed),
  )
  const small = await pushImage(from, makeLayers(MB))
  const many = (to: string): Promise<Cost> =>
    parts.together(
      Array.from({ length: PARALLEL }, (_, index) => () => skopeo(from, to, small, `copied-${index}`)),
    )
  await compare(
    ['many', `${PARALLEL} copies of ${LAYERS} MB at once`, 1],
    onFresh((to) => ours(from, to, small, 'copied', String(PARALLEL))),
    onFresh(many),
    1,
  )
}

const benchRegistry = async (source: Server, digest: Digest): Promise<void> => {
  const bearer = join(dir, 'bearer')
  const copyInto = (to: string) =>
    parts.run(process.execPath, [WORKER, 'copy', source.url, 'bench', to, 'bench', digest, '1', bearer])
  const pull = (from: string) =>
    parts.run(process.execPath, [WORKER, 'pull', from, 'bench', '', '', digest, String(PULLS), bearer])
  const push: [string, string, number] = ['push', 'registry: push', 1]
  await compare(push, onFresh(copyInto, undefined, parts.startOurs), onFresh(copyInto))
  await compare(
    ['pull', `registry: pull, ${PULLS} times`, 1],
    onFresh(pull, copyInto, parts.startOurs),
    onFresh(pull, copyInto),
  )
}

/** One vendor registry of ours, as many installs as asked for: all at once against one after the other. */
const benchInstalls = async (): Promise<string> => {
  const [vendor, install] = [await parts.startOurs(), await parts.startOurs()]
  const bearer = await readFile(join(dir, 'bearer'), 'utf8')
  const digest = await pushImage(vendor.url, makeLayers(MB), async () => ({ bearer }))
  const run = (mode: 'copy' | 'copy-in-turn'): Promise<Cost> => {
    const args = [vendor.url, 'bench', install.url, mode, digest, String(PARALLEL), join(dir, 'bearer')]
    return parts.run(process.execPath, [WORKER, mode, ...args])
  }
  const inTurn = await run('copy-in-turn')
  const atOnce = await run('copy')
  await vendor.stop()
  await install.stop()
  const told = ({ workMs = 0, serversCpuMs }: Cost) =>
    `${workMs.toFixed(0)} ms, registries ${serversCpuMs.toFixed(0)} ms of processor`
  const faster = ((inTurn.workMs ?? 0) / (atOnce.workMs ?? 1)).toFixed(2)
  return `${PARALLEL} installs syncing the same ${LAYERS} MB: at once ${told(atOnce)}; in turn ${told(inTurn)}; ${faster} times as fast`
}

const middle = (all: Cost[], of: (cost: Cost) => number): number => median(all.map(of))

const isMissed = (row: Row): boolean =>
  middle(row.theirs, (cost) => cost.ms) < row.goal * middle(row.ours, (cost) => cost.ms)

const show = (): void => {
  const line = (...cells: string[]) =>
    cells.map((cell, at) => (at === 0 ? cell.padEnd(28) : cell.padStart(at > 5 ? 17 : 12))).join('')
  console.log(
    line('', 'ours', '(its work)', 'theirs', 'times fast', 'goal', 'processor ms', 'of registries', 'MB'),
  )
  for (const row of rows) {
    const of = (side: 'ours' | 'theirs', pick: (cost: Cost) => number) => middle(row[side], pick)
    const ms = (value: number) => `${value.toFixed(0)} ms`
    const pair = (pick: (cost: Cost) => number) =>
      `${of('ours', pick).toFixed(0)} / ${of('theirs', pick).toFixed(0)}`
    const time = (cost: Cost) => cost.ms
    console.log(
      line(
        row.what,
        ms(of('ours', time)),
        ms(of('ours', (cost) => cost.workMs ?? cost.ms)),
        ms(of('theirs', time)),
        (of('theirs', time) / of('ours', time)).toFixed(2),
        `${row.goal}${isMissed(row) ? ' missed' : ''}`,
        pair((cost) => cost.cpuMs),
        pair((cost) => cost.serversCpuMs),
        pair((cost) => cost.rssMb),
      ),
    )
  }
  console.log(
    `\nmedian of ${ROUNDS}; whole processes, start included; theirs: skopeo and docker-registry; pairs: ours / theirs`,
  )
}

const missing = ['skopeo', 'docker-registry'].filter((name) => spawnSync(name, ['--version']).status !== 0)
if (values.help) console.log(HELP)
else if (missing.length > 0) console.log(`not measured: ${missing.join(' and ')} not installed here`)
else {
  try {
    const key = randomBytes(32)
    await writeFile(join(dir, 'key'), key.toString('base64url'), { mode: 0o600 })
    const repositories = [{ name: '*', actions: ['pull' as const, 'push' as const] }]
    const bearer = createTokenIssuer(key).issue({ subject: 'bench', repositories }, 3600, Date.now())
    await writeFile(join(dir, 'bearer'), bearer, { mode: 0o600 })
    const source = await parts.startTheirs()
    const layers = makeLayers(LAYER_MB * MB)
    const digest = await pushImage(source.url, layers)
    await benchCopies(source, layers, digest)
    await benchRegistry(source, digest)
    const installs = only.includes('installs') ? await benchInstalls() : undefined
    if (values.json) console.log(JSON.stringify({ rounds: ROUNDS, rows }))
    else show()
    if (installs !== undefined && !values.json) console.log(installs)
    if (values.strict && rows.some(isMissed)) process.exitCode = 1
  } finally {
    await parts.stopAll()
    await rm(dir, { recursive: true, force: true })
  }
}
