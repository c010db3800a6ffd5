import { mkdtempSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { readdressInstalls } from './readdress.ts'
import { readSettings } from './settings.ts'

let dir: string
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'tenon-settings-'))
})
afterEach(() => rmSync(dir, { recursive: true, force: true }))

describe('the settings of npm start', () => {
  const from = { root: '/clone', cwd: '/clone/docs' }

  it('are a folder of the clone and port 7080, unless told', () => {
    expect(readSettings({ TENON_PORT: '', TENON_DIR: '' }, from)).toEqual({
      dir: '/clone/.tenon',
      port: 7080,
      serverEnv: {},
    })
    expect(readSettings({ TENON_PORT: '0', TENON_DIR: '../x' }, from)).toEqual({
      dir: '/clone/x',
      port: 0,
      serverEnv: {},
    })
  })

  it('for the server reach it, but for its folder and its port', () => {
    const own = { TENON_LEASE_SECONDS: '60', TENON_PUBLIC_URL: 'http://127.0.0.1:9' }
    const others = {
      TENON_DATA_DIR: '/x',
      TENON_URL: 'http://x',
      TENON_TOKEN: 'x',
      HOME: '/',
      TENON_HOST: '',
    }
    expect(readSettings({ ...own, ...others }, from).serverEnv).toEqual(own)
  })

  it.each(['abc', '-1', '65536', '80.5', ' ', '1e3'])('refuse the port %j', (port) => {
    expect(() => readSettings({ TENON_PORT: port }, from)).toThrow('expected a whole number from 0 to 65535')
  })
})

describe('installs, when the server has another address', () => {
  const unitFile = (id: string) => join(dir, 'installs', id, 'system', 'agent', 'unit.json')
  const write = (id: string, text: string) => {
    mkdirSync(join(unitFile(id), '..'), { recursive: true })
    writeFileSync(unitFile(id), text)
  }

  it('are sent there, and nothing else of them changes', () => {
    const unit = (url: string) => ({
      format: 1,
      spec: { env: { TENON_SERVER_URL: url, A: 'b' }, command: ['x'] },
    })
    write('ins_1', JSON.stringify(unit('http://127.0.0.1:1')))
    write('ins_2', JSON.stringify(unit('http://127.0.0.1:2')))
    write('ins_3', '{"form')
    mkdirSync(join(dir, 'installs', 'ins_4'))
    expect(readdressInstalls(dir, 'http://127.0.0.1:2')).toBe(1)
    expect(JSON.parse(readFileSync(unitFile('ins_1'), 'utf8'))).toEqual(unit('http://127.0.0.1:2'))
    expect(statSync(unitFile('ins_1')).mode & 0o777).toBe(0o600)
    expect(readFileSync(unitFile('ins_3'), 'utf8')).toBe('{"form')
    expect(readdressInstalls(join(dir, 'nothing'), 'http://127.0.0.1:2')).toBe(0)
  })
})
