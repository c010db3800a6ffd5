// `npm start` as a newcomer runs it, on each version of Node that is promised: ready, two addresses that answer, Ctrl-C, nothing left.
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { report } from './run-tests.mjs'
import { toolsFolder } from './test-tools.mjs'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const ADDRESS = /http:\/\/127\.0\.0\.1:\d+[^\s)"]*/g
const READY_WITHIN_MS = 180_000

const counts = { passed: 0, failed: 0, skipped: 0 }
const absent = []
for (const [version, node] of nodes()) {
  if (node === undefined) {
    counts.skipped++
    absent.push([`Node ${version}`, 'node scripts/test-tools.mjs gets it'])
    console.log(`skipped: Node ${version} is not here; node scripts/test-tools.mjs gets it`)
    continue
  }
  const started = Date.now()
  const trouble = await tryNode(node)
  const seconds = ((Date.now() - started) / 1000).toFixed(1)
  counts[trouble ? 'failed' : 'passed']++
  console.log(
    `Node ${version}: ${trouble ?? 'two addresses answer, nothing is left after Ctrl-C'} (${seconds} s)`,
  )
}
if (absent.length > 0) console.log(`${absent.length} versions of Node skipped`)
report({ ...counts, flaky: [], absent })
process.exitCode = counts.failed > 0 ? 1 : 0

function nodes() {
  const mine = Number(process.versions.node.split('.')[0])
  return [20, 24, 26].map((version) => {
    const tool = join(toolsFolder, `node${version}`)
    return [version, version === mine ? process.execPath : existsSync(tool) ? tool : undefined]
  })
}

/** @returns {Promise<string | undefined>} what went wrong */
async function tryNode(node) {
  const folder = mkdtempSync(join(tmpdir(), 'tenon-smoke-'))
  symlinkSync(node, join(folder, 'node'))
  const dir = join(folder, 'data')
  const env = {
    ...process.env,
    PATH: [folder, process.env.PATH].join(delimiter),
    TENON_DIR: dir,
    TENON_PORT: String(await freePort()),
  }
  const child = spawn('npm', ['start'], { cwd: root, env, stdio: ['ignore', 'pipe', 'pipe'], detached: true })
  const ended = new Promise((done) => child.once('close', done))
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk))
  const answered = await twoAnswer(child, () => output)
  interrupt(child)
  await Promise.race([ended, delay(60_000)])
  const left = processesOf(dir)
  spawnSync('kill', ['-9', ...left.map((line) => line.trim().split(' ')[0])])
  rmSync(folder, { recursive: true, force: true })
  if (!answered)
    return `no two addresses answered; its last words:\n${output.split('\n').slice(-25).join('\n')}`
  return left.length > 0 ? `left after Ctrl-C:\n${left.join('\n')}` : undefined
}

/** As Ctrl-C does, unless it ended by itself. */
function interrupt({ pid }) {
  try {
    process.kill(-pid, 'SIGINT')
  } catch (error) {
    if (error.code !== 'ESRCH') throw error
  }
}

async function twoAnswer(child, output) {
  const until = Date.now() + READY_WITHIN_MS
  while (Date.now() < until && child.exitCode === null) {
    const addresses = [...new Set(output().match(ADDRESS) ?? [])]
    const answers = await Promise.all(addresses.map(isThere))
    if (answers.filter(Boolean).length >= 2) return true
    await delay(500)
  }
  return false
}

async function isThere(address) {
  try {
    return (await fetch(address, { signal: AbortSignal.timeout(3000) })).status === 200
  } catch {
    return false
  }
}

function processesOf(dir) {
  const { stdout } = spawnSync('ps', ['-eo', 'pid=,args='], { encoding: 'utf8' })
  return stdout.split('\n').filter((line) => line.includes(dir))
}

function freePort() {
  return new Promise((done) => {
    const server = createServer()
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address()
      server.close(() => done(port))
    })
  })
}
