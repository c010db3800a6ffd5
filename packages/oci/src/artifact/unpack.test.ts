import {
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  realpath,
  rm,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { gzipSync } from 'node:zlib'
import * as fc from 'fast-check'
import { packTar } from 'modern-tar'
import type { TarEntry } from 'modern-tar'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { packFolder, unpackTarGz } from '../index.ts'
import { safePath } from './unpack.ts'

describe('unpacking an untrusted archive', () => {
  let dir: string

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'tenon-unpack-'))
  })
  afterAll(() => rm(dir, { recursive: true, force: true }))

  const limits = { maxEntries: 10, maxBytes: 1024 * 1024 }
  const target = () => join(dir, 'target')

  const unpack = async (bytes: Uint8Array, end = true) => {
    const source = end ? Readable.from([bytes]) : new Readable({ read() {} })
    if (!end) source.push(bytes)
    return unpackTarGz(source, target(), limits)
  }

  const file = (name: string, text = 'x'): TarEntry => ({
    header: { name, size: text.length, type: 'file' },
    body: text,
  })
  const archive = async (...entries: TarEntry[]) => gzipSync(await packTar(entries))

  const refused = { code: 'ARCHIVE_REFUSED', left: [] }
  const outcome = async (bytes: Uint8Array) => {
    const code = await unpack(bytes).then(
      () => 'unpacked',
      (error: { code?: string }) => error.code,
    )
    return { code, left: await readdir(dir) }
  }

  it.each(['../evil', 'a/../../evil', '/etc/evil', 'a/..', '..', 'C:/evil', 'a\\..\\evil'])(
    'refuses the name %j and writes nothing',
    async (name) => {
      expect(await outcome(await archive(file('good'), file(name)))).toEqual(refused)
    },
  )

  it.each(['symlink', 'link', 'character-device', 'block-device', 'fifo'] as const)(
    'refuses a %s',
    async (type) => {
      expect(
        await outcome(
          await archive(file('good'), { header: { name: 'l', size: 0, type, linkname: 'good' } }),
        ),
      ).toEqual(refused)
    },
  )

  it('refuses a file behind a link of the same name', async () => {
    const link: TarEntry = { header: { name: 'd', size: 0, type: 'symlink', linkname: '/tmp' } }
    expect(await outcome(await archive(link, file('d/evil')))).toEqual(refused)
  })

  it('refuses a name that appears twice', async () => {
    expect(await outcome(await archive(file('same'), file('same')))).toEqual(refused)
  })

  it('refuses more entries or bytes than allowed', async () => {
    expect(
      await outcome(await archive(...Array.from({ length: 11 }, (_, index) => file(`f${index}`)))),
    ).toEqual(refused)
    const bomb = gzipSync(Buffer.alloc(64 * 1024 * 1024))
    expect(bomb.byteLength).toBeLessThan(128 * 1024)
    expect(await outcome(bomb)).toEqual(refused)
    expect(await outcome(await archive(file('big', 'x'.repeat(2 * 1024 * 1024))))).toEqual(refused)
  })

  it('stops at the limit without waiting for the rest of the archive', async () => {
    const bytes = await archive(file('big', 'x'.repeat(2 * 1024 * 1024)), file('later', 'y'.repeat(1024)))
    await expect(unpack(bytes.subarray(0, -20), false)).rejects.toMatchObject({ code: 'ARCHIVE_REFUSED' })
  })

  it('refuses what is cut off, damaged or no archive at all', async () => {
    const good = await archive(file('good', 'text'.repeat(100)))
    expect(await outcome(good.subarray(0, good.byteLength - 12))).toEqual(refused)
    expect(await outcome(Buffer.from('not a tar.gz'))).toEqual(refused)
    expect(await outcome(gzipSync(Buffer.from('not a tar'.repeat(200))))).toEqual(refused)
  })

  it('never throws anything but a refusal on any bytes', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 2048 }), async (bytes) => {
        const { code } = await outcome(gzipSync(bytes))
        await rm(target(), { recursive: true, force: true })
        expect(['ARCHIVE_REFUSED', 'unpacked']).toContain(code)
      }),
      { numRuns: 50 },
    )
    expect(await readdir(dir)).toEqual([])
  })

  it('keeps any name it accepts inside the folder', () => {
    fc.assert(
      fc.property(fc.string(), (name) => {
        const inside = join('/base', acceptedPath(name) ?? '')
        expect(inside === '/base' || inside.startsWith('/base/')).toBe(true)
      }),
    )
  })

  it('takes long names, folders and leading dots', async () => {
    const long = `${'deep/'.repeat(60)}file.txt`
    await unpack(await archive(file('./top'), file(long, 'deep')))
    expect(await readFile(join(target(), long), 'utf8')).toBe('deep')
    expect(await readFile(join(target(), 'top'), 'utf8')).toBe('x')
    await expect(unpack(await archive(file('again')))).rejects.toMatchObject({ code: 'ARCHIVE_REFUSED' })
    await rm(target(), { recursive: true })
  })

  describe('that may hold links', () => {
    const link = (name: string, linkname: string): TarEntry => ({
      header: { name, size: 0, type: 'symlink', linkname },
    })
    const withLinks = async (...entries: TarEntry[]) => {
      await rm(target(), { recursive: true, force: true })
      const source = Readable.from([await archive(...entries)])
      return unpackTarGz(source, target(), { ...limits, links: 'inside' }).then(
        () => 'unpacked',
        (error: { code?: string }) => error.code,
      )
    }

    it('makes those that stay inside as they are', async () => {
      expect(await withLinks(link('a/up', '../b/file'), file('b/file'), link('gone', 'nothing'))).toBe(
        'unpacked',
      )
      expect(await readlink(join(target(), 'a/up'))).toBe('../b/file')
      expect(await readFile(join(target(), 'a/up'), 'utf8')).toBe('x')
    })

    it.each([
      [link('l', '/etc')],
      [link('l', '../out')],
      [link('a/l', '../../out')],
      [link('d', '.'), link('l', 'd/../../out')],
      [link('l', '')],
      [link('l', 'b'), link('l', 'c')],
      [link('d', '.'), file('d/file')],
      [file('d/file'), link('d', '.')],
      [link('d', '.'), link('d/l', '..')],
    ])('refuses %j %j', async (...entries) => {
      expect(await withLinks(...entries)).toBe('ARCHIVE_REFUSED')
      expect(await readdir(dir)).toEqual([])
    })

    it('never makes a link that can be followed out of it', async () => {
      const step = fc.constantFrom('..', '.', 'a', 'b', 'c', '')
      const path = fc.array(step, { minLength: 1, maxLength: 4 }).map((steps) => steps.join('/'))
      const links = fc.array(fc.tuple(path, path), { maxLength: 5 })
      await fc.assert(
        fc.asyncProperty(links, async (all) => {
          if ((await withLinks(...all.map(([name, to]) => link(name, to)))) !== 'unpacked') return
          const top = await realpath(target())
          for (const entry of await readdir(top, { recursive: true, withFileTypes: true })) {
            const end = await realpath(join(entry.parentPath, entry.name)).catch(() => top)
            expect(`${end}/`.startsWith(`${top}/`)).toBe(true)
          }
        }),
        { numRuns: 100 },
      )
      await rm(target(), { recursive: true, force: true })
    })
  })

  it('packs links that stay inside where that is asked for, and names one that does not', async () => {
    const source = await mkdtemp(join(tmpdir(), 'tenon-links-'))
    await mkdir(join(source, 'sub'))
    await writeFile(join(source, 'a'), 'text')
    await symlink('../a', join(source, 'sub', 'b'))
    await symlink('sub', join(source, 'folder'))
    const packed = await packFolder(source, { links: 'inside' })
    expect(await packFolder(source, { links: 'inside' })).toEqual(packed)
    await unpackTarGz(Readable.from([packed]), target(), { ...limits, links: 'inside' })
    expect(await readlink(join(target(), 'sub', 'b'))).toBe('../a')
    expect(await readFile(join(target(), 'folder', 'b'), 'utf8')).toBe('text')
    await rm(target(), { recursive: true })
    await symlink('../..', join(source, 'sub', 'out'))
    await expect(packFolder(source, { links: 'inside' })).rejects.toMatchObject({
      code: 'ARCHIVE_REFUSED',
      message: expect.stringContaining('sub/out is a link to ../.., which leads out of the folder') as string,
    })
    await rm(source, { recursive: true })
  })

  it('packs no links either', async () => {
    const source = await mkdtemp(join(tmpdir(), 'tenon-links-'))
    await writeFile(join(source, 'a'), 'a')
    await symlink('a', join(source, 'b'))
    await expect(packFolder(source)).rejects.toMatchObject({ code: 'ARCHIVE_REFUSED' })
    await expect(packFolder(source, { ignore: (path) => path === 'b' })).resolves.toBeInstanceOf(Buffer)
    await rm(source, { recursive: true })
  })
})

const acceptedPath = (name: string): string | undefined => {
  try {
    return safePath(name)
  } catch {
    return undefined
  }
}
