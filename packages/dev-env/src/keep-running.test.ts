import { expect, it } from 'vitest'
import { KeptDying, keepRunning, mayStartAgain } from './keep-running.ts'
import type { Program } from './program.ts'

it('a program that died is started again, unless it died three times within a minute', () => {
  expect(mayStartAgain([], 0)).toBe(true)
  expect(mayStartAgain([0, 1_000], 2_000)).toBe(true)
  expect(mayStartAgain([0, 1_000, 2_000], 3_000)).toBe(false)
  expect(mayStartAgain([0, 1_000, 2_000], 61_500)).toBe(true)
})

const dying = (code: number) => ({ name: 'server', exited: Promise.resolve(code) }) as Program

it('one that dies over and over ends all, with how it ended and how often it was started again', async () => {
  const said: string[] = []
  const kept = keepRunning(
    (line) => said.push(line),
    () => 0,
  )
  let starts = 0
  kept.watch(dying(-1), async () => {
    starts++
    return dying(3)
  })
  await expect(kept.failed).rejects.toThrow('server ended by itself, with 3, 3 times within a minute')
  await expect(kept.failed).rejects.toBeInstanceOf(KeptDying)
  expect(starts).toBe(2)
  expect(said[0]).toBe('server ended by itself, killed by a signal; it is started again.')
})

it('one that cannot be started again ends all; one that was told to stop ends nothing', async () => {
  const kept = keepRunning(
    () => undefined,
    () => 0,
  )
  kept.watch(dying(1), () => Promise.reject(new Error('the port is taken')))
  await expect(kept.failed).rejects.toThrow('the port is taken')

  const stopped = keepRunning(
    () => expect.unreachable(),
    () => 0,
  )
  stopped.stop()
  const program = dying(0)
  stopped.watch(program, () => expect.unreachable())
  const first = await Promise.race([stopped.failed, program.exited.then(() => 'ended')])
  expect(first).toBe('ended')
})
