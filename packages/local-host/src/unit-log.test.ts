import { mkdtemp, rm, stat } from 'node:fs/promises'
import { writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { boundLog, closeLog, markStart, openLog, tailLog, tailOfLatest } from './unit-log.ts'

let folder: string
let path: string

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lh-log-'))
  path = join(folder, 'log')
})

afterEach(() => rm(folder, { recursive: true }))

describe("a unit's log", () => {
  it('stays bounded while the same process goes on writing, and reads on across the cut', async () => {
    const log = openLog(path)
    for (let i = 0; i < 1000; i += 1) {
      writeSync(log, `line ${i}\n`)
      boundLog(path, 2000)
    }
    closeLog(log)
    expect((await stat(path)).size + (await stat(`${path}.1`)).size).toBeLessThan(4100)
    const expected = Array.from({ length: 150 }, (_none, i) => `line ${850 + i}`)
    expect(await tailLog(path, 150)).toEqual(expected)
  })

  it('tells the last words of the latest process from those before', async () => {
    const log = openLog(path)
    for (const word of ['old', 'new']) {
      markStart(log, 'started')
      writeSync(log, `${word}\n`)
    }
    closeLog(log)
    expect(await tailOfLatest(path, 10)).toEqual(['new'])
  })

  it('that was never written is empty', async () => {
    expect(await tailLog(path, 10)).toEqual([])
  })
})
