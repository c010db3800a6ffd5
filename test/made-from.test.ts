import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'

const script = join(dirname(import.meta.dirname), 'scripts/made-from.mjs')
const { madeFrom } = (await import(script)) as { madeFrom(root: string): string }

let root: string
const write = (file: string, text: string) => {
  mkdirSync(join(root, file, '..'), { recursive: true })
  writeFileSync(join(root, file), text)
  utimesSync(join(root, file), 1, 1)
}

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'tenon-made-from-'))
  write('packages/core/src/a.ts', 'a')
  write('package-lock.json', '{}')
})
afterEach(() => rmSync(root, { recursive: true, force: true }))

describe('what a build was made from', () => {
  it('is the same while nothing changes, whatever lies in node_modules of a package', () => {
    const before = madeFrom(root)
    write('packages/core/node_modules/x/index.js', 'x')
    write('docs/a.md', 'words')
    expect(madeFrom(root)).toBe(before)
  })

  it.each([
    ['a changed file', () => write('packages/core/src/a.ts', 'ab')],
    ['a touched file', () => utimesSync(join(root, 'packages/core/src/a.ts'), 2, 2)],
    ['a new file', () => write('packages/core/src/deep/b.ts', '')],
    ['a removed file', () => rmSync(join(root, 'packages/core/src/a.ts'))],
    ['another lock file', () => write('package-lock.json', '{ }')],
    ['packages that were installed', () => write('node_modules/.package-lock.json', '{}')],
  ])('is another after %s', (_, change) => {
    const before = madeFrom(root)
    change()
    expect(madeFrom(root)).not.toBe(before)
  })
})
