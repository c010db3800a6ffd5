import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { build } from 'esbuild'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openInstallStore } from './file-store.ts'
import { KEPT_VERSIONS } from './install-store.ts'

/** Puts numbers for ever, and says each one after it was put; sometimes removes a secret. */
const WRITER = `
  import { openInstallStore } from './file-store.ts'
  const [dir, key] = process.argv.slice(2)
  const store = await openInstallStore({ dir, key: Buffer.from(key, 'hex') })
  const from = Number(Buffer.from((await store.get('state', 'counter')) ?? []).toString() || 0)
  for (let i = from + 1; ; i++) {
    await store.put('state', 'counter', Buffer.from(String(i).padEnd(20_000)))
    process.stdout.write(i + '\\n')
    if (i % 5 === 0) await store.put('secret', 'token', Buffer.from('value'))
    if (i % 5 === 2) await store.remove('secret', 'token')
  }
`

let base: string
let program: string

beforeAll(async () => {
  base = await mkdtemp(join(tmpdir(), 'tenon-crash-'))
  program = join(base, 'writer.mjs')
  await build({
    stdin: { contents: WRITER, resolveDir: import.meta.dirname, loader: 'ts' },
    outfile: program,
    bundle: true,
    platform: 'node',
    format: 'esm',
  })
})
afterAll(() => rm(base, { recursive: true }))

it('loses nothing that was acknowledged, whenever its process is killed', async () => {
  const dir = join(base, 'store')
  const key = randomBytes(32)
  let acknowledged = 0
  for (let round = 0; round < 12; round++) {
    acknowledged = Math.max(acknowledged, await writeUntilKilled(dir, key, 3 + round * 2))
    const store = await openInstallStore({ dir, key })
    const stored = Number(Buffer.from((await store.get('state', 'counter')) ?? []).toString())
    expect(stored).toBeGreaterThanOrEqual(acknowledged)
    expect(stored).toBeLessThanOrEqual(acknowledged + 1)
    const history = await store.history('state', 'counter')
    expect(history.at(-1)?.version).toBe(stored)
    expect(history).toHaveLength(Math.min(stored, KEPT_VERSIONS))
    for (const { version } of history) {
      const value = await store.getVersion('state', 'counter', version)
      expect(Number(Buffer.from(value!).toString())).toBe(version)
    }
    const secret = await store.get('secret', 'token')
    expect([undefined, 'value']).toContain(secret && Buffer.from(secret).toString())
    expect(await readdir(join(dir, 'tmp'))).toEqual([])
    await store.close()
  }
  expect(acknowledged).toBeGreaterThan(12 * 3)
})

/** The kill falls at a random point of the write that follows the given number of acknowledgements. */
async function writeUntilKilled(dir: string, key: Buffer, count: number): Promise<number> {
  const child = spawn(process.execPath, [program, dir, key.toString('hex')], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = once(child, 'close')
  let output = ''
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    const before = output.split('\n').length
    output += chunk
    if (before <= count && output.split('\n').length > count) {
      setTimeout(() => child.kill('SIGKILL'), Math.random() * 8)
    }
  })
  const [, signal] = (await ended) as [number | null, string | null]
  expect(signal).toBe('SIGKILL')
  return Number(output.trimEnd().split('\n').at(-1))
}
