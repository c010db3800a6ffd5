import { spawnSync } from 'node:child_process'
import { mkdtemp, rm, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTimeSettler } from './settle-times.ts'

const SINCE = 1_000_000_000
const FORMATS = ['gnu', 'pax', 'ustar']

describe('the archive of a layer', () => {
  let dir: string
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'tenon-settle-'))
    await writeFile(join(dir, 'new'), 'n'.repeat(1500))
    await writeFile(join(dir, 'old'), 'o')
  })
  afterAll(() => rm(dir, { recursive: true, force: true }))

  const tar = (args: string[], input?: Buffer): Buffer =>
    spawnSync('tar', args, { cwd: dir, env: { PATH: process.env['PATH'], TZ: 'UTC' }, input }).stdout

  const archive = async (format: string, newTime: number): Promise<Buffer> => {
    await utimes(join(dir, 'new'), newTime, newTime)
    await utimes(join(dir, 'old'), 12.5, 12.5)
    const more = format === 'pax' ? ['--pax-option=delete=atime,delete=ctime'] : []
    return tar(['--create', `--format=${format}`, ...more, 'new', 'old'])
  }

  const settle = (bytes: Buffer, chunk: number): Promise<Buffer> => {
    const chunks = Array.from({ length: Math.ceil(bytes.byteLength / chunk) }, (_, index) =>
      bytes.subarray(index * chunk, (index + 1) * chunk),
    )
    return buffer(Readable.from(chunks).compose(createTimeSettler(SINCE)))
  }

  it.each(FORMATS)('has the same bytes whenever its files were made, as %s', async (format) => {
    const one = await archive(format, SINCE + 0.25)
    const two = await archive(format, SINCE + 5_000_000.75)
    expect(one.equals(two)).toBe(false)
    const settled = await settle(one, 100)
    expect((await settle(two, 70_000)).equals(settled)).toBe(true)
    const listed = tar(['--list', '--verbose', '--full-time', '--file=-'], settled).toString()
    expect(listed).toMatch(/1500 1970-01-01 00:00:00 new\n/)
    // What is older than the build stays as it is.
    expect(listed).toMatch(/1 1970-01-01 00:00:12(\.5)? old\n/)
  })

  it('that is cut off is refused', async () => {
    const bytes = await archive('gnu', SINCE)
    const whole = Readable.from([bytes.subarray(0, 700)]).compose(createTimeSettler(SINCE))
    await expect(buffer(whole)).rejects.toThrow('cut off')
  })
})
