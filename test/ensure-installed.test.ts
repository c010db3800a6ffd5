import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'

const root = dirname(import.meta.dirname)
const SCRIPT = join('scripts', 'ensure-installed.mjs')

interface LockEntry {
  link?: true
  optional?: true
  devOptional?: true
  dependencies?: Record<string, string>
  devDependencies?: Record<string, string>
  optionalDependencies?: Record<string, string>
  peerDependencies?: Record<string, string>
}

let folder: string

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tenon-installed-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

/** The script, with an `npm` before the real one that only writes down what it was asked. */
function ensure(clone: string): { code: number | null; output: string; asked: string } {
  const bin = join(folder, 'bin')
  const asked = join(folder, 'asked')
  mkdirSync(bin, { recursive: true })
  writeFileSync(asked, '')
  writeFileSync(join(bin, 'npm'), `#!/bin/sh\necho "$*" >> '${asked}'\n`, { mode: 0o755 })
  const ran = spawnSync(process.execPath, [join(clone, SCRIPT)], {
    encoding: 'utf8',
    env: { ...process.env, PATH: `${bin}${delimiter}${process.env['PATH']}` },
  })
  return { code: ran.status, output: ran.stdout + ran.stderr, asked: readFileSync(asked, 'utf8') }
}

/** A clone with one package that it wants, as `content`. */
function cloneWith(content: string | undefined): string {
  const clone = join(folder, 'clone')
  mkdirSync(join(clone, 'scripts'), { recursive: true })
  cpSync(join(root, SCRIPT), join(clone, SCRIPT))
  const packages = { '': {}, 'node_modules/one': { version: '1.0.0' } }
  writeFileSync(join(clone, 'package-lock.json'), JSON.stringify({ lockfileVersion: 3, packages }))
  if (content === undefined) return clone
  mkdirSync(join(clone, 'node_modules', 'one'), { recursive: true })
  writeFileSync(join(clone, 'node_modules', 'one', 'package.json'), content)
  return clone
}

describe('the packages of a clone', () => {
  it('are not installed again where all are in place', () => {
    expect(ensure(root)).toMatchObject({
      code: 0,
      asked: '',
      output: expect.stringMatching(/^packages: \d+ in place\n$/),
    })
    expect(ensure(cloneWith('{"version": "1.0.0"}'))).toMatchObject({ code: 0, asked: '' })
  })

  it('are installed where one is absent, has another version or was cut off half way', () => {
    for (const content of [undefined, '{"version": "0.9.0"}', '']) {
      // What builds need is asked for whatever NODE_ENV says.
      expect(ensure(cloneWith(content)).asked).toMatch(/^ci --include=dev .*\n$/)
    }
  })

  it('are named where npm does not install what the lock names', () => {
    const { code, output } = ensure(cloneWith(undefined))
    expect(code).toBe(0)
    expect(output).toContain('package-lock.json names what npm does not install: node_modules/one')
    expect(output).toContain('next: run `npm install`')
  })
})

describe('package-lock.json', () => {
  it('names no package that nobody asks for', () => {
    const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
      packages: Record<string, LockEntry>
    }
    const askedFor = new Set(
      Object.values(lock.packages).flatMap((entry) => [
        ...Object.keys(entry.dependencies ?? {}),
        ...Object.keys(entry.devDependencies ?? {}),
        ...Object.keys(entry.optionalDependencies ?? {}),
        ...Object.keys(entry.peerDependencies ?? {}),
      ]),
    )
    const unasked = Object.entries(lock.packages)
      .filter(([path, entry]) => path.includes('node_modules/') && !entry.link)
      .map(([path]) => path)
      .filter((path) => !askedFor.has(path.slice(path.lastIndexOf('node_modules/') + 13)))
    expect(unasked).toEqual([])
  })
})
