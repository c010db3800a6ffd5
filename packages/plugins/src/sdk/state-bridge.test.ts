import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { PluginError } from './errors.ts'
import type { StateCall } from './job-api.ts'
import { openStateBridge, type StateBridge } from './state-bridge.ts'

let bridge: StateBridge
let calls: StateCall[]
let answer: () => Promise<{ status: number; bytes: Uint8Array }>
let lines: string[]

beforeEach(async () => {
  calls = []
  lines = []
  answer = async () => ({ status: 200, bytes: Buffer.from('{"serial":1}') })
  const terraformState = (call: StateCall) => {
    calls.push(call)
    return answer()
  }
  bridge = await openStateBridge({ api: { terraformState }, log: (line) => lines.push(line) })
})
afterEach(() => bridge.close())

function ask(
  method: string,
  options: { query?: string; body?: string; md5?: string; password?: string } = {},
) {
  const env = bridge.env('web')
  const password = options.password ?? env['TF_HTTP_PASSWORD']
  const credentials = Buffer.from(`${env['TF_HTTP_USERNAME']}:${password}`).toString('base64')
  return fetch(`${env['TF_HTTP_ADDRESS']}${options.query ?? ''}`, {
    method,
    headers: {
      authorization: `Basic ${credentials}`,
      ...(options.md5 === undefined ? {} : { 'content-md5': options.md5 }),
    },
    ...(options.body === undefined ? {} : { body: options.body }),
  })
}

describe('the bridge between Terraform and the job API', () => {
  it('passes calls on, and answers as they come back', async () => {
    const got = await ask('GET')
    expect([got.status, await got.text()]).toEqual([200, '{"serial":1}'])
    await ask('POST', { query: '?ID=a%20b', body: '{}', md5: 'sum' })
    expect(calls).toEqual([
      { method: 'GET', component: 'web' },
      { method: 'POST', component: 'web', lockId: 'a b', contentMd5: 'sum', body: Buffer.from('{}') },
    ])
    answer = async () => ({ status: 423, bytes: Buffer.from('{"ID":"x","Info":"held by the job j"}') })
    const locked = await ask('LOCK', { body: '{"ID":"y"}' })
    expect([locked.status, await locked.json()]).toEqual([423, { ID: 'x', Info: 'held by the job j' }])
    expect(lines.join()).toContain('held by the job j')
  })

  it('lets nobody in without its password, and nothing through but the methods of the backend', async () => {
    expect((await ask('GET', { password: 'guess' })).status).toBe(401)
    expect((await ask('PUT', { body: '{}' })).status).toBe(405)
    expect(calls).toEqual([])
    const { TF_HTTP_ADDRESS: address, TF_HTTP_PASSWORD: password } = bridge.env('web')
    expect(address).not.toContain(password)
  })

  it('says in the job’s log why the agent did not answer, with a status that Terraform does not repeat', async () => {
    answer = () => Promise.reject(new PluginError('job_api_unreachable', 'The agent is away.', 'Start it.'))
    expect((await ask('GET')).status).toBe(400)
    expect(lines.join()).toContain('The agent is away.')
  })
})
