import { anonymous, createRegistryClient, createTokenIssuer, pushArtifact } from '@tenon/oci'
import type { Digest } from '@tenon/oci'
import { spawn, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'

/** Our copy engine and registry against skopeo and docker-registry, both sides in one run on one machine. */
const { values } = parseArgs({
  options: {
    worker: { type: 'string' },
    registry: { type: 'string' },
    rounds: { type: 'string', default: '3' },
    'layer-mb': { type: 'string', default: '20' },
    parallel: { type: 'string', default: '50' },
  },
})
const [WORKER, REGISTRY] = [values.worker ?? '', values.registry ?? '']
const [ROUNDS, LAYER_MB, PARALLEL] = [values.rounds, values['layer-mb'], values.parallel].map(Number) as [
  number,
  number,
  number,
]
const LAYERS = 10
const MB = 1_000_000

interface Running {
  url: string
  /** What its process has used of the processor so far. */
  cpuMs(): Promise<number>
  stop(): Promise<void>
}

interface Measured {
  ms: number
  rssMb: number
  /** Without the start of the process, where it tells. */
  workMs?: number
}

const dir = await mkdtemp(join(tmpdir(), 'tenon-bench-oci-'))
const running = new Set<Running>()
let names = 0

const freePort = (): Promise<number> =>
  new Promise((resolve) => {
    const server = createServer()
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as AddressInfo
      server.close(() => resolve(port))
    })
  })

const startServer = async (
  program: string,
  args: string[],
  url: string,
  folder: string,
): Promise<Running> => {
  const child = spawn(program, args, { stdio: 'ignore' })
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()))
  for (let isUp = false; !isUp;) {
    await new Promise((resolve) => setTimeout(resolve, 20))
    isUp = await fetch(`${url}/v2/`).then(
      (answer) => answer.status === 200 || answer.status === 401,
      () => false,
    )
    if (child.exitCode !== null) throw new Error(`${program} ended with ${child.exitCode}`)
  }
  const server: Running = {
    url,
    cpuMs: async () => {
      const fields = (await readFile(`/proc/${child.pid}/stat`, 'utf8')).split(') ')[1]?.split(' ') ?? []
      // Fields 14 and 15 of the whole line, in hundredths of a second.
      return (Number(fields[11]) + Number(fields[12])) * 10
    },
    stop: async () => {
      running.delete(server)
      child.kill('SIGKILL')
      await ended
      await rm(folder, { recursive: true, force: true })
    },
  }
  running.add(server)
  return server
}

const startTheirs = async (): Promise<Running> => {
  const port = await freePort()
  const folder = join(dir, `theirs-${names++}`)
  const file = `${folder}.yml`
  const storage = `storage: {filesystem: {rootdirectory: ${folder}}}`
  await writeFile(file, `version: 0.1\nlog: {level: error}\n${storage}\nhttp: {addr: '127.0.0.1:${port}'}\n`)
  return startServer('docker-registry', ['serve', file], `http://127.0.0.1:${port}`, folder)
}

const startOurs = async (): Promise<Running> => {
  const port = await freePort()
  const folder = join(dir, `ours-${names++}`)
  const args = [REGISTRY, '--dir', folder, '--port', String(port), '--key-file', join(dir, 'key')]
  return startServer(process.execPath, args, `http://127.0.0.1:${port}`, folder)
}

/** Time of the whole process, start included, and the most memory it held. */
const measure = (program: string, args: string[]): Promise<Measured> =>
  new Promise((resolve, reject) => {
    const started = performance.now()
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] })
    let said = ''
    child.stdout.on('data', (chunk: Buffer) => (said += chunk.toString()))
    let rssMb = 0
    const look = setInterval(() => {
      void readFile(`/proc/${child.pid}/status`, 'utf8').then(
        (text) => (rssMb = Math.max(rssMb, Number(/VmHWM:\s+(\d+)/.exec(text)?.[1] ?? 0) / 1024)),
        () => undefined,
      )
    }, 20)
    child.once('close', (code) => {
      clearInterval(look)
      const work = /"ms":([\d.]+)/.exec(said)?.[1]
      const told = work === undefined ? {} : { workMs: Number(work) }
      if (code === 0) resolve({ ms: performance.now() - started, rssMb, ...told })
      else reject(new Error(`${program} ${args[0]} ended with ${code}`))
    })
  })

const ours = (from: string, to: string, digest: Digest, target = 'copied', times = '1') =>
  measure(process.execPath, [WORKER, 'copy', from, 'bench', to, target, digest, times])

const skopeo = (from: string, to: string, digest: Digest, target = 'copied') =>
  measure('skopeo', [
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

const median = (all: number[]): number => all.toSorted((a, b) => a - b)[Math.floor(all.length / 2)] ?? 0

interface Row {
  what: string
  ours: number[]
  work: number[]
  theirs: number[]
  rss: number[]
  theirRss: number[]
}
const rows: Row[] = []

/** Each round runs both sides one after the other, in turn first, on a machine that others may use too. */
const compare = async (
  what: string,
  one: () => Promise<Measured>,
  other: () => Promise<Measured>,
  rounds = ROUNDS,
): Promise<void> => {
  const row: Row = { what, ours: [], work: [], theirs: [], rss: [], theirRss: [] }
  for (let round = 0; round < rounds; round++) {
    const sides = [
      async () => {
        const { ms, rssMb, workMs } = await one()
        row.ours.push(ms)
        row.work.push(workMs ?? ms)
        row.rss.push(rssMb)
      },
      async () => {
        const { ms, rssMb } = await other()
        row.theirs.push(ms)
        row.theirRss.push(rssMb)
      },
    ]
    for (const side of round % 2 === 0 ? sides : sides.toReversed()) await side()
  }
  rows.push(row)
}

/** On a target of its own each time, prepared and taken away outside of what is measured. */
const onFresh =
  (
    work: (to: string) => Promise<Measured>,
    prepare?: (to: string) => Promise<unknown>,
    start = startTheirs,
  ) =>
  async (): Promise<Measured> => {
    const target = await start()
    try {
      await prepare?.(target.url)
      return await work(target.url)
    } finally {
      await target.stop()
    }
  }

const benchCopies = async (source: Running, layers: Buffer[], digest: Digest): Promise<void> => {
  const from = source.url
  await compare(
    `cold copy, ${LAYERS * LAYER_MB} MB`,
    onFresh((to) => ours(from, to, digest)),
    onFresh((to) => skopeo(from, to, digest)),
  )
  const changed = await pushImage(from, [...layers.slice(1), randomBytes(LAYER_MB * MB)])
  const seed = (to: string) => skopeo(from, to, digest)
  await compare(
    'one layer changed',
    onFresh((to) => ours(from, to, changed), seed),
    onFresh((to) => skopeo(from, to, changed), seed),
  )
  await compare(
    'nothing to do',
    onFresh((to) => ours(from, to, digest), seed),
    onFresh((to) => skopeo(from, to, digest), seed),
  )
  const small = await pushImage(from, makeLayers(MB))
  const many = async (to: string): Promise<Measured> => {
    const started = performance.now()
    const all = await Promise.all(
      Array.from({ length: PARALLEL }, (_, index) => skopeo(from, to, small, `copied-${index}`)),
    )
    return { ms: performance.now() - started, rssMb: all.reduce((sum, { rssMb }) => sum + rssMb, 0) }
  }
  await compare(
    `${PARALLEL} copies of ${LAYERS} MB at once`,
    onFresh((to) => ours(from, to, small, 'copied', String(PARALLEL))),
    onFresh(many),
    1,
  )
}

const benchRegistry = async (source: Running, digest: Digest): Promise<void> => {
  const copyInto = (to: string) =>
    measure(process.execPath, [
      WORKER,
      'copy',
      source.url,
      'bench',
      to,
      'bench',
      digest,
      '1',
      join(dir, 'bearer'),
    ])
  const pull = (from: string) =>
    measure(process.execPath, [WORKER, 'pull', from, 'bench', '', '', digest, '1', join(dir, 'bearer')])
  await compare('registry: push', onFresh(copyInto, undefined, startOurs), onFresh(copyInto))
  await compare('registry: pull', onFresh(pull, copyInto, startOurs), onFresh(pull, copyInto))
}

/** One vendor registry of ours, as many installs as asked for: all at once against one after the other. */
const benchInstalls = async (): Promise<string> => {
  const [vendor, install] = [await startOurs(), await startOurs()]
  const bearer = await readFile(join(dir, 'bearer'), 'utf8')
  const digest = await pushImage(vendor.url, makeLayers(MB), async () => ({ bearer }))
  const run = async (mode: 'copy' | 'copy-in-turn'): Promise<{ ms: number; cpu: number }> => {
    const before = await vendor.cpuMs()
    const args = [vendor.url, 'bench', install.url, mode, digest, String(PARALLEL), join(dir, 'bearer')]
    const { workMs = 0 } = await measure(process.execPath, [WORKER, mode, ...args])
    return { ms: workMs, cpu: (await vendor.cpuMs()) - before }
  }
  const inTurn = await run('copy-in-turn')
  const atOnce = await run('copy')
  await vendor.stop()
  await install.stop()
  const told = ({ ms, cpu }: { ms: number; cpu: number }) =>
    `${ms.toFixed(0)} ms, vendor registry ${cpu} ms of processor`
  return `${PARALLEL} installs syncing the same ${LAYERS} MB: at once ${told(atOnce)}; in turn ${told(inTurn)}; ${(inTurn.ms / atOnce.ms).toFixed(2)} times as fast`
}

const show = (): void => {
  const line = (...cells: string[]) =>
    cells.map((cell, at) => (at === 0 ? cell.padEnd(28) : cell.padStart(15))).join('')
  const ms = (all: number[]) => `${median(all).toFixed(0)} ms`
  console.log(line('', 'ours', '(without start)', 'theirs', 'times as fast', 'ours MB', 'theirs MB'))
  for (const { what, ours: a, work, theirs: b, rss, theirRss } of rows) {
    const memory = [median(rss), median(theirRss)].map((mb) => mb.toFixed(0))
    console.log(line(what, ms(a), ms(work), ms(b), (median(b) / median(a)).toFixed(2), ...memory))
  }
  console.log(`\nmedian of ${ROUNDS}; whole processes, start included; theirs: skopeo and docker-registry`)
}

const missing = ['skopeo', 'docker-registry'].filter((name) => spawnSync(name, ['--version']).status !== 0)
if (missing.length > 0) {
  console.log(`not measured: ${missing.join(' and ')} not installed here`)
} else {
  try {
    const key = randomBytes(32)
    await writeFile(join(dir, 'key'), key.toString('base64url'), { mode: 0o600 })
    const repositories = [{ name: '*', actions: ['pull' as const, 'push' as const] }]
    const bearer = createTokenIssuer(key).issue({ subject: 'bench', repositories }, 3600, Date.now())
    await writeFile(join(dir, 'bearer'), bearer, { mode: 0o600 })
    const source = await startTheirs()
    const layers = makeLayers(LAYER_MB * MB)
    const digest = await pushImage(source.url, layers)
    await benchCopies(source, layers, digest)
    await benchRegistry(source, digest)
    const installs = await benchInstalls()
    show()
    console.log(installs)
  } finally {
    await Promise.all([...running].map((server) => server.stop()))
    await rm(dir, { recursive: true, force: true })
  }
}
