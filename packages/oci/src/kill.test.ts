import { randomBytes } from 'node:crypto'
import { mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  collectGarbage,
  copyArtifact,
  createFileStorage,
  createRegistryClient,
  createTokenIssuer,
  pushArtifact,
  sha256Digest,
} from './index.ts'
import type { Digest, RegistryClient } from './index.ts'
import { bundle, startProgram } from './testing/bundle.ts'
import type { Program } from './testing/bundle.ts'
import { startCuttingProxy } from './testing/cutting-proxy.ts'
import type { CuttingProxy } from './testing/cutting-proxy.ts'
import { allFiles, createRegistryWorld, waitFor } from './testing/registry-world.ts'
import type { RegistryWorld } from './testing/registry-world.ts'

const MiB = 1024 * 1024
const LAYER = 4 * MiB
/** So much a copy reads at once: between two reads nothing changes, so one point in each is all of them. */
const READ = 64 * 1024
/** Of both kinds together; more of them where a run may take longer. */
const ASKED = process.env['TENON_KILL_POINTS'] ?? '6'
/** Each starts programs, which takes seconds on a machine with much else to do. */
const TIMEOUT_MS = 180_000
/** Parts of the way at which the process dies; seeded, so that a failure comes back. */
const points = (seed: number): number[] => {
  if (ASKED === 'all') return Array.from({ length: LAYER / READ }, (_, read) => ((read + 0.5) * READ) / LAYER)
  let state = seed
  return Array.from({ length: Math.ceil(Number(ASKED) / 2) }, () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648
    return state / 2_147_483_648
  })
}

describe('kill -9 in the middle', { timeout: TIMEOUT_MS }, () => {
  let world: RegistryWorld
  let vendor: Awaited<ReturnType<RegistryWorld['start']>>
  let counted: CuttingProxy
  let dir: string
  let registry: Program
  let url: string
  let bearer: string
  const key = randomBytes(32)
  const programs: Program[] = []

  beforeAll(async () => {
    world = await createRegistryWorld()
    vendor = await world.start({ authorize: async () => ({ ok: true }) })
    counted = await startCuttingProxy(vendor.url, {})
    dir = await mkdtemp(join(tmpdir(), 'tenon-kill-'))
    await writeFile(join(dir, 'key'), key.toString('base64url'), { mode: 0o600 })
    await bundle(new URL('main.ts', import.meta.url), join(dir, 'registry.mjs'))
    await bundle(new URL('testing/copy-program.ts', import.meta.url), join(dir, 'copier.mjs'))
    const repositories = [{ name: '*', actions: ['pull' as const, 'push' as const] }]
    bearer = createTokenIssuer(key).issue({ subject: 'test', repositories }, 3600, Date.now())
    await writeFile(join(dir, 'bearer'), bearer, { mode: 0o600 })
    await startRegistry('0')
  }, TIMEOUT_MS)
  afterAll(async () => {
    for (const { child, ended } of programs) {
      child.kill('SIGKILL')
      await ended
    }
    await counted.close()
    await world.close()
    await rm(dir, { recursive: true, force: true })
  })

  const start = (file: string, args: string[]): Program => {
    const program = startProgram(join(dir, file), args)
    programs.push(program)
    return program
  }
  const startRegistry = async (port: string): Promise<void> => {
    const args = ['--dir', join(dir, 'data'), '--port', port, '--key-file', join(dir, 'key')]
    registry = start('registry.mjs', args)
    url = await registry.says(/listens at (http:\S+)/)
  }
  const clientOf = (at: string): RegistryClient =>
    createRegistryClient({
      url: at,
      credentials: async () => ({ bearer }),
      // A registry that starts again is waited for, however long that takes here.
      retry: { attempts: 1000, baseDelayMs: 20, maxDelayMs: 200 },
    })
  const makeArtifact = async () => {
    const layer = randomBytes(LAYER)
    const { digest } = await pushArtifact({
      client: clientOf(vendor.url),
      repository: 'apps/a',
      artifactType: 'x/y',
      layers: [
        { mediaType: 'x/z', bytes: layer },
        { mediaType: 'x/z', bytes: randomBytes(1000) },
      ],
    })
    return { digest, layer }
  }
  /** Nothing but whole and right content is ever served, and a manifest only with all it names. */
  const check = async ({ digest, layer }: { digest: Digest; layer: Buffer }): Promise<boolean> => {
    const client = clientOf(url)
    const isThere = (await client.headManifest('apps/a', digest)) !== undefined
    if (!isThere && !(await client.hasBlob('apps/a', sha256Digest(layer)))) return false
    const { stream } = await client.getBlob('apps/a', sha256Digest(layer), { size: LAYER })
    expect((await buffer(stream)).equals(layer)).toBe(true)
    return isThere
  }
  /** The registry may still be putting away what the dead connection had sent: then it is looked again. */
  const held = async (): Promise<number> => {
    try {
      const files = await allFiles(join(dir, 'data/uploads'))
      const stats = await Promise.all(files.map((file) => stat(file)))
      return stats.reduce((sum, { size }) => sum + size, 0)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
      await new Promise((resolve) => setTimeout(resolve, 10))
      return held()
    }
  }

  it.each(points(1))('of the registry at %d of a push: it goes on with what is missing', async (part) => {
    const artifact = await makeArtifact()
    let isKilled = false
    let restarted: Promise<void> | undefined
    const kill = async (): Promise<void> => {
      registry.child.kill('SIGKILL')
      await registry.ended
      await startRegistry(new URL(url).port)
    }
    await copyArtifact({
      from: { client: clientOf(vendor.url), repository: 'apps/a' },
      to: { client: clientOf(url), repository: 'apps/a' },
      digest: artifact.digest,
      onProgress: ({ doneBytes }) => {
        if (isKilled || doneBytes < part * LAYER) return
        isKilled = true
        restarted = kill()
      },
    })
    await restarted
    expect(isKilled).toBe(true)
    expect(await check(artifact)).toBe(true)
  })

  it.each(points(2))('of the copier at %d of a copy: the next sends only what is missing', async (part) => {
    const artifact = await makeArtifact()
    const args = [counted.url, url, artifact.digest, join(dir, 'sessions'), join(dir, 'bearer')]
    const first = start('copier.mjs', args)
    first.onOutput((text) => {
      const done = Number(/done (\d+)\n$/.exec(text)?.[1] ?? 0)
      if (done >= part * LAYER) first.child.kill('SIGKILL')
    })
    const { code } = await first.ended
    // On a busy machine all of it may have arrived before the signal did.
    expect((await check(artifact)) || code !== 0).toBe(true)
    const before = counted.sent().down
    const there = await held()
    const second = await start('copier.mjs', args).ended
    expect(second).toMatchObject({ code: 0 })
    expect(counted.sent().down - before).toBeLessThan(LAYER - there + 100_000)
    expect(await check(artifact)).toBe(true)
    expect(await readdir(join(dir, 'sessions'))).toEqual([])
  })

  it('leaves no temporary file for ever', async () => {
    const storage = await createFileStorage(join(dir, 'data'))
    await collectGarbage(storage, { graceMs: 0, now: () => Date.now() + 1000 })
    await waitFor('the folders to be empty', async () => {
      const left = await Promise.all(['uploads', 'tmp'].map((name) => readdir(join(dir, 'data', name))))
      return left.flat().length === 0
    })
    expect((await collectGarbage(storage, { graceMs: 0, now: () => Date.now() + 1000 })).contents).toBe(0)
  })
})
