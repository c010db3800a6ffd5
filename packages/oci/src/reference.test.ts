import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  formatImageReference,
  isDigest,
  isRepository,
  isTag,
  parseImageReference,
  parseRepository,
  parseTag,
  digestOf,
  sha256Digest,
} from './index.ts'

const component = fc.stringMatching(/^[a-z0-9]{1,6}((\.|_|__|-{1,3})[a-z0-9]{1,4}){0,2}$/)
const repository = fc.array(component, { minLength: 1, maxLength: 4 }).map((parts) => parts.join('/'))
const tag = fc.stringMatching(/^[a-zA-Z0-9_][a-zA-Z0-9._-]{0,20}$/)

describe('a repository name', () => {
  it('is accepted when it follows the grammar', () => {
    fc.assert(
      fc.property(repository, (name) => {
        expect(parseRepository(name)).toBe(name)
      }),
    )
  })

  it.each([
    '',
    '..',
    '../a',
    'a/../b',
    'a//b',
    '/a',
    'a/',
    'Upper',
    'a..b',
    'a___b',
    '-a',
    'a-',
    '_a',
    'a b',
    'a\n',
    '.a',
    'a%2fb',
    'ü',
  ])('is refused when it is %j', (name) => {
    expect(isRepository(name)).toBe(false)
    expect(() => parseRepository(name)).toThrow(expect.objectContaining({ code: 'NAME_INVALID' }))
  })

  it('has at most 255 characters', () => {
    expect(isRepository('a'.repeat(255))).toBe(true)
    expect(isRepository('a'.repeat(256))).toBe(false)
  })

  it('never lets any text climb or leave a folder', () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        const isSafe = (part: string) => !['', '.', '..'].includes(part) && !part.startsWith('_')
        expect(!isRepository(text) || text.split('/').every(isSafe)).toBe(true)
      }),
    )
  })

  it('is refused in linear time', () => {
    const started = performance.now()
    expect(isRepository(`${'a-'.repeat(120)}!`)).toBe(false)
    // What is not linear takes longer than the universe is old.
    expect(performance.now() - started).toBeLessThan(10_000)
  })
})

describe('a tag', () => {
  it.each(['', '.a', '-a', 'a/b', '..', 'a:b', 'a'.repeat(129)])('is refused when it is %j', (text) => {
    expect(isTag(text)).toBe(false)
    expect(() => parseTag(text)).toThrow(expect.objectContaining({ code: 'NAME_INVALID' }))
  })
})

describe('a digest', () => {
  it('is what the hash of any bytes looks like', () => {
    fc.assert(
      fc.property(fc.uint8Array(), (bytes) => {
        expect(isDigest(sha256Digest(bytes))).toBe(true)
        expect(isDigest(digestOf('sha512', bytes))).toBe(true)
      }),
    )
  })

  it.each([
    'sha256:',
    `sha256:${'A'.repeat(64)}`,
    `sha512:${'a'.repeat(64)}`,
    `sha384:${'a'.repeat(96)}`,
    `SHA256:${'a'.repeat(64)}`,
    'constructor:abc',
    `sha256:${'a'.repeat(63)}`,
    `sha256:${'a'.repeat(64)}\n`,
  ])('is refused when it is %j', (text) => expect(isDigest(text)).toBe(false))
})

describe('an image reference', () => {
  it('reads back as it was written', () => {
    const host = fc.constantFrom('localhost', 'registry.example:5000', '[::1]:5000')
    const digest = fc.uint8Array({ maxLength: 4 }).map(sha256Digest)
    fc.assert(
      fc.property(
        host,
        repository,
        fc.option(tag, { nil: undefined }),
        fc.option(digest, { nil: undefined }),
        (registry, name, t, d) => {
          const reference = {
            registry,
            repository: name,
            ...(t === undefined ? {} : { tag: t }),
            ...(d === undefined ? {} : { digest: d }),
          }
          expect(parseImageReference(formatImageReference(reference))).toEqual(reference)
        },
      ),
    )
  })

  it.each(['hello', 'host/UP', 'host/a@b', 'host/a:b:c', 'host/../a', 'ho st/a', 'host/a@x@y'])(
    'is refused when it is %j',
    (text) => {
      expect(() => parseImageReference(text)).toThrow(expect.objectContaining({ name: 'OciError' }))
    },
  )
})
