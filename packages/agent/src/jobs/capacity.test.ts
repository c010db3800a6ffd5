import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ApiWorld } from '../testing/api-world.ts'
import { waitUntil } from '../testing/wait-until.ts'

let world: ApiWorld

beforeEach(async () => {
  world = await ApiWorld.create()
})
afterEach(() => world.close())

describe('an agent whose memory is given out', () => {
  it('lets the next deploy wait, says for what in every session, and starts a debug job meanwhile', async () => {
    const capacity = { interactiveSlots: 1, memoryBytes: 200_000_000, cpus: 8 }
    await world.start({ capacity })
    expect((await world.server.heard('hello')).runtime.capacity).toEqual(capacity)
    const first = await world.job()
    const waiting = world.server.manifest()
    world.server.assign(waiting)
    const said = () => world.server.all('job.progress').filter(({ jobId }) => jobId === waiting.jobId)
    await waitUntil('the reason', () => said()[0])
    expect(said()[0]?.message).toBe(
      `it needs 95 MiB of memory, and 95 MiB of 167 MiB are given out, to deploy ${first.manifest.jobId}`,
    )
    await world.job({ kind: 'debug' })
    world.server.cut()
    await waitUntil('the reason again', () => said().length >= 2)
    expect(said()[1]).toEqual(said()[0])
    expect(world.server.all('job.started').some(({ jobId }) => jobId === waiting.jobId)).toBe(false)
    await world.end(first)
    await world.server.heard('job.finished', waiting.jobId)
  })
})
