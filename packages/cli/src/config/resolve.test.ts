import { chmod, mkdir, readFile, stat, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { startApi, TOKEN, type Api } from '../testing/api-server.ts'
import { createHome, temporaryFolder, type Home } from '../testing/run-cli.ts'
import { app, serverInfo } from '../testing/values.ts'

let api: Api
let home: Home

beforeEach(async () => {
  home = await createHome()
  api = await startApi({
    'server.info': () => serverInfo(),
    'apps.list': () => ({ items: [app()], next: null }),
  })
})
afterEach(() => api.stop())

const list = ['apps', 'list', '--json']

describe('signing in', () => {
  it('checks the token with the server and keeps it where only its owner can read it', async () => {
    const ran = await home.run(['login', '--url', api.url, '--name', 'local'], { stdin: `${TOKEN}\n` })
    expect(ran).toMatchObject({ code: 0, stdout: expect.stringContaining('as anna (owner)') })
    expect((await stat(home.configFile)).mode & 0o777).toBe(0o600)
    expect((await stat(dirname(home.configFile))).mode & 0o777).toBe(0o700)
    expect((await home.run(list)).code).toBe(0)
  })

  it('keeps nothing when the server refuses the token', async () => {
    const ran = await home.run(['login', '--url', api.url], { stdin: 'wrong' })
    expect(ran.code).toBe(3)
    expect(ran.stderr).toContain('error: the token is not valid')
    expect(ran.stderr).toContain('request: req-test-1')
    await expect(readFile(home.configFile)).rejects.toThrow('ENOENT')
  })

  it('reads a token typed at a terminal without showing it', async () => {
    const ran = await home.run(['login', '--url', api.url], { tty: 80, stdin: `x\u007F${TOKEN}\r` })
    expect(ran.code).toBe(0)
    expect(ran.stdout + ran.stderr).not.toContain(TOKEN)
  })

  it('refuses to send a token unencrypted to another machine', async () => {
    const ran = await home.run(['login', '--url', 'http://tenon.example.com'], { stdin: TOKEN })
    expect(ran).toMatchObject({ code: 2, stderr: expect.stringContaining('--insecure-http') })
  })

  it('takes no path, no credentials and no other scheme in the address', async () => {
    for (const url of ['ftp://x', 'https://a:b@x', 'https://x/path', 'nonsense']) {
      expect((await home.run(['login', '--url', url], { stdin: TOKEN })).code).toBe(2)
    }
  })
})

describe('which server is used', () => {
  const login = (name: string) => home.run(['login', '--url', api.url, '--name', name], { stdin: TOKEN })

  it('is none at first, which says how to sign in', async () => {
    const ran = await home.run(list)
    expect(ran).toMatchObject({ code: 3, stdout: '', stderr: expect.stringContaining('next: tenon login') })
  })

  it('is the one of the environment before the current context', async () => {
    await login('local')
    const ran = await home.run(list, { env: { TENON_URL: 'http://127.0.0.1:9', TENON_TOKEN: 'x' } })
    expect(ran).toMatchObject({ code: 6, stderr: expect.stringContaining('127.0.0.1:9') })
  })

  it('is the named context before the environment', async () => {
    await login('local')
    const ran = await home.run([...list, '--context', 'local'], {
      env: { TENON_URL: 'http://127.0.0.1:9', TENON_TOKEN: 'x' },
    })
    expect(ran.code).toBe(0)
    expect((await home.run([...list, '--context', 'other'])).code).toBe(4)
  })

  it('never sends a stored token to an address it was not stored for', async () => {
    await login('local')
    const other = await startApi({})
    try {
      const ran = await home.run(list, { env: { TENON_URL: other.url } })
      expect(ran.code).toBe(3)
      expect(other.calls).toEqual([])
    } finally {
      await other.stop()
    }
  })

  it('takes the token of the environment from a file too', async () => {
    await writeFile(join(home.home, 'token'), `${TOKEN}\n`)
    expect((await home.run(list, { env: { TENON_URL: api.url, TENON_TOKEN_FILE: 'token' } })).code).toBe(0)
  })

  it('is the last one signed in to, or the one chosen with `contexts use`', async () => {
    await login('one')
    await login('two')
    await home.run(['contexts', 'use', 'one'])
    const { stdout } = await home.run(['contexts', '--json'])
    expect(JSON.parse(stdout)).toEqual({
      items: [
        { name: 'one', url: api.url, current: true },
        { name: 'two', url: api.url, current: false },
      ],
      next: null,
    })
    await home.run(['contexts', 'remove', 'one'])
    expect((await home.run(list)).code).toBe(3)
  })
})

describe('a folder with .tenon/cli.json', () => {
  async function folderWith(value: object, token: string | undefined = TOKEN): Promise<string> {
    const folder = await temporaryFolder()
    await mkdir(join(folder, '.tenon'))
    await mkdir(join(folder, 'deep', 'inside'), { recursive: true })
    await writeFile(join(folder, '.tenon', 'cli.json'), JSON.stringify(value))
    if (token) await writeFile(join(folder, '.tenon', 'token'), token)
    return join(folder, 'deep', 'inside')
  }

  it('names the server for everything below it, when no other is configured', async () => {
    const cwd = await folderWith({ url: api.url, tokenFile: 'token' })
    expect((await home.run(list, { cwd })).code).toBe(0)
    await home.run(['login', '--url', api.url], { stdin: TOKEN })
    api.handlers['apps.list'] = () => ({ items: [], next: null })
    expect((await home.run(list, { cwd })).code).toBe(0)
  })

  it('is found elsewhere where TENON_DIR says', async () => {
    const inside = await folderWith({ url: api.url, tokenFile: 'token' })
    const env = { TENON_DIR: join(inside, '../../.tenon') }
    expect((await home.run(list, { env })).code).toBe(0)
    expect((await home.run(list, { cwd: inside, env: { TENON_DIR: home.home } })).code).toBe(3)
  })

  it('is used before the current context where TENON_DIR says so, and nothing instead of it', async () => {
    const other = await startApi({ 'server.info': () => serverInfo() })
    try {
      await home.run(['login', '--url', other.url], { stdin: TOKEN })
      const inside = await folderWith({ url: api.url, tokenFile: 'token' })
      const env = { TENON_DIR: join(inside, '../../.tenon') }
      expect((await home.run(list, { env })).code).toBe(0)
      expect((await home.run(list, { env: { ...env, TENON_TOKEN: TOKEN } })).code).toBe(0)
      const lost = await home.run(list, { env: { TENON_DIR: home.home } })
      expect(lost).toMatchObject({ code: 3, stderr: expect.stringContaining('TENON_DIR is set, but') })
      expect(other.callsOf('apps.list')).toEqual([])
    } finally {
      await other.stop()
    }
  })

  it('cannot name a server elsewhere, nor a file outside of its own folder', async () => {
    const elsewhere = await folderWith({ url: 'https://evil.example.com', tokenFile: 'token' })
    expect((await home.run(list, { cwd: elsewhere })).code).toBe(2)
    await writeFile(join(home.home, 'private'), TOKEN)
    const outside = await folderWith({ url: api.url, tokenFile: join(home.home, 'private') })
    expect((await home.run(list, { cwd: outside })).code).toBe(2)
    const linked = await folderWith({ url: api.url, tokenFile: 'link' }, undefined)
    await symlink(join(home.home, 'private'), join(linked, '../../.tenon/link'))
    expect((await home.run(list, { cwd: linked })).code).toBe(2)
    expect(api.calls).toEqual([])
  })
})

describe('a broken config file', () => {
  it('is named together with the way out', async () => {
    await mkdir(dirname(home.configFile), { recursive: true })
    await writeFile(home.configFile, '{')
    await chmod(home.configFile, 0o600)
    const ran = await home.run(list)
    expect(ran).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(`cannot use ${home.configFile}: it is not JSON`),
    })
  })
})
