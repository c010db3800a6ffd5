import { chmod, mkdir, readFile, realpath, stat, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { Refusal, startApi, type Api } from '../testing/api-server.ts'
import { createHome, type Home } from '../testing/run-cli.ts'

const USERNAME = `rlg_${'0'.repeat(26)}`
const PASSWORD = 'tenon-login-secret'
/** A name that a file may have, and none that is any longer. */
const LONGEST = 'x'.repeat(255)

let api: Api
let home: Home
let host: string

beforeEach(async () => {
  home = await createHome()
  api = await startApi({
    'registry.login': () => ({
      username: USERNAME,
      password: PASSWORD,
      expiresAt: new Date(Date.now() + 3_600_500).toISOString(),
    }),
    'registry.logout': () => ({ id: USERNAME }),
  })
  host = new URL(api.url).host
})
afterEach(() => api.stop())

const run = (argv: string[], env: Record<string, string> = {}) =>
  home.run(['registry', ...argv], { env: { ...api.env, ...env } })
const docker = () => join(home.home, '.docker', 'config.json')
const helm = () => join(home.home, '.config', 'helm', 'registry', 'config.json')
const auth = Buffer.from(`${USERNAME}:${PASSWORD}`).toString('base64')
const read = async (path: string) => JSON.parse(await readFile(path, 'utf8')) as object
const place = async (path: string, value: unknown) => {
  await mkdir(dirname(path), { recursive: true })
  await writeFile(path, typeof value === 'string' ? value : JSON.stringify(value), { mode: 0o644 })
}

describe('tenon registry login', () => {
  it('writes one entry where each tool reads it, and says for how long and what to type', async () => {
    const ran = await run(['login'])
    expect(ran.code).toBe(0)
    for (const path of [docker(), helm()]) {
      expect(await read(path)).toEqual({ auths: { [host]: { auth } } })
      expect((await stat(path)).mode & 0o777).toBe(0o600)
      expect(ran.stdout).toContain(path)
    }
    expect(ran.stdout).toContain(`wrote ${docker()} for docker, podman, skopeo, oras, cosign\n`)
    expect(ran.stdout).toContain('it expires in 1h00m')
    for (const example of [
      `docker pull ${host}/`,
      'podman pull --tls-verify=false',
      `helm pull --plain-http oci://${host}/`,
      'cosign verify --key',
    ])
      expect(ran.stderr).toContain(example)
    expect(ran.stdout + ran.stderr).not.toContain(PASSWORD)
    expect(api.callsOf('registry.login')[0]?.given.body).toEqual({ expiresInSeconds: 3600 })
  })

  it('keeps whatever else stands in a file, follows links, and leaves the mode of the folder alone', async () => {
    const kept = { HttpHeaders: { a: 'b' }, auths: { other: { auth: 'eDp5' } }, credHelpers: { ecr: 'ecr' } }
    const real = join(home.home, 'dotfiles', 'docker.json')
    await place(real, kept)
    await chmod(dirname(real), 0o755)
    await mkdir(dirname(docker()))
    await symlink(real, docker())
    expect((await run(['login', '--tool', 'docker', '--minutes', '5'])).code).toBe(0)
    expect(await read(docker())).toEqual({ ...kept, auths: { ...kept.auths, [host]: { auth } } })
    expect(Object.keys(await read(docker()))).toEqual(Object.keys(kept))
    expect(await realpath(docker())).toBe(await realpath(real))
    expect([(await stat(real)).mode & 0o777, (await stat(dirname(real))).mode & 0o777]).toEqual([
      0o600, 0o755,
    ])
    expect(api.callsOf('registry.login')[0]?.given.body).toEqual({ expiresInSeconds: 300 })
    await expect(stat(helm())).rejects.toThrow('ENOENT')
  })

  it.each([
    ['docker', { DOCKER_CONFIG: 'd' }, 'd/config.json'],
    ['podman', { XDG_RUNTIME_DIR: 'r' }, 'r/containers/auth.json'],
    ['skopeo', { XDG_RUNTIME_DIR: 'r', REGISTRY_AUTH_FILE: 'a.json' }, 'a.json'],
    ['helm', { XDG_CONFIG_HOME: 'c' }, 'c/helm/registry/config.json'],
    ['helm', { HELM_CONFIG_HOME: 'h', XDG_CONFIG_HOME: 'c' }, 'h/registry/config.json'],
    ['helm', { HELM_REGISTRY_CONFIG: 'x.json', HELM_CONFIG_HOME: 'h' }, 'x.json'],
  ])('finds the file of %s as it does, with %j', async (tool, env, path) => {
    const ran = await run(['login', '--tool', tool, '--json'], env)
    const file = join(await realpath(home.home), path)
    expect(JSON.parse(ran.stdout)).toMatchObject({
      registry: host,
      username: USERNAME,
      files: [{ tools: [tool] }],
    })
    expect(await read(file)).toEqual({ auths: { [host]: { auth } } })
    expect(ran.stdout).not.toContain(PASSWORD)
  })

  it('asks for no credential when a file cannot hold it, and says what to do', async () => {
    await place(docker(), { credsStore: 'desktop' })
    const stored = await run(['login'])
    expect([stored.code, stored.stderr]).toEqual([
      5,
      expect.stringMatching(/docker-credential-desktop[^]*DOCKER_CONFIG=/),
    ])
    await place(docker(), '{ not json')
    const broken = await run(['login'])
    expect([broken.code, broken.stderr]).toEqual([2, expect.stringContaining(`mv ${docker()}`)])
    await place(docker(), { auths: [] })
    expect((await run(['login'])).code).toBe(2)
    expect(api.callsOf('registry.login')).toEqual([])
    await place(docker(), { credsStore: 'desktop', credHelpers: { [host]: '' } })
    expect((await run(['login', '--tool', 'helm'])).code).toBe(0)
  })

  it('gives back a credential that it cannot write down', async () => {
    const ran = await run(['login'], { HELM_REGISTRY_CONFIG: LONGEST })
    expect([ran.code, ran.stderr]).toEqual([
      1,
      expect.stringContaining(`cannot write ${join(home.home, LONGEST)}`),
    ])
    expect(api.callsOf('registry.logout').map(({ given }) => given.params)).toEqual([{ id: USERNAME }])
  })

  it('prints the password alone on stdout when asked to, and writes nothing', async () => {
    const ran = await run(['login', '--print'])
    expect(ran.stdout).toBe(`${PASSWORD}\n`)
    expect(ran.stderr).toContain(USERNAME)
    expect(JSON.parse((await run(['login', '--print', '--json'])).stdout)).toMatchObject({
      registry: host,
      username: USERNAME,
      password: PASSWORD,
    })
    await expect(stat(docker())).rejects.toThrow('ENOENT')
  })

  it('passes on why the server gives none', async () => {
    api.handlers['registry.login'] = () => {
      throw new Refusal('token_expired', 'this API token expired', 'Ask an owner for a new one.')
    }
    const ran = await run(['login'])
    expect([ran.code, ran.stderr]).toEqual([3, expect.stringContaining('Ask an owner')])
    await expect(stat(docker())).rejects.toThrow('ENOENT')
  })
})

describe('tenon registry logout', () => {
  it('removes what login wrote, nothing else, and ends it on the server', async () => {
    await place(docker(), { auths: { other: { auth: 'eDp5' } }, HttpHeaders: {} })
    await run(['login'])
    const ran = await run(['logout'])
    expect(ran.code).toBe(0)
    expect(await read(docker())).toEqual({ auths: { other: { auth: 'eDp5' } }, HttpHeaders: {} })
    expect(await read(helm())).toEqual({ auths: {} })
    expect(api.callsOf('registry.logout').map(({ given }) => given.params)).toEqual([{ id: USERNAME }])
    expect((await run(['logout'])).stderr).toContain('no credential')
    expect(api.callsOf('registry.logout')).toHaveLength(1)
  })

  it('leaves alone what somebody signed in with by other means', async () => {
    const others = { auths: { [host]: { auth: Buffer.from('me:mine').toString('base64') } } }
    await place(docker(), others)
    expect((await run(['logout'])).stderr).toContain('no credential')
    expect(await read(docker())).toEqual(others)
  })

  it('removes it too when the server does not know the token any more, and says that it expires', async () => {
    await run(['login', '--tool', 'oras'])
    api.handlers['registry.logout'] = () => {
      throw new Refusal('unauthorized', 'this API token was revoked')
    }
    const ran = await run(['logout'])
    expect([ran.code, ran.stderr]).toEqual([
      0,
      expect.stringMatching(/was revoked[^]*expires within the hour/),
    ])
    expect(await read(docker())).toEqual({ auths: {} })
  })
})
