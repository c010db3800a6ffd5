import { spawn, spawnSync } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ecrCredentials, ecrTokens, signAwsRequest } from '../index.ts'

/** The keys and the time of AWS's own published examples. */
const KEYS = { accessKeyId: 'AKIDEXAMPLE', secretAccessKey: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY' }
const AT = new Date('2015-08-30T12:36:00Z')

describe('a request signed for AWS', () => {
  const sign = (url: string, service: string, more: object = {}) =>
    signAwsRequest(
      { method: 'GET', url: new URL(url), headers: {}, body: '', ...more },
      KEYS,
      { region: 'us-east-1', service },
      AT,
    )['authorization']

  it("has the signatures of AWS's published examples", () => {
    const scope = 'AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1'
    expect(sign('https://example.amazonaws.com/', 'service')).toBe(
      `${scope}/service/aws4_request, SignedHeaders=host;x-amz-date, Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31`,
    )
    const headers = { 'content-type': 'application/x-www-form-urlencoded; charset=utf-8' }
    const url = 'https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08'
    expect(sign(url, 'iam', { headers })).toBe(
      `${scope}/iam/aws4_request, SignedHeaders=content-type;host;x-amz-date, Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7`,
    )
  })

  it('covers the body, the query in any order, and a session token', () => {
    const base = sign('https://example.amazonaws.com/?a=1&b=2', 'service')
    expect(sign('https://example.amazonaws.com/?b=2&a=1', 'service')).toBe(base)
    expect(sign('https://example.amazonaws.com/?a=1&b=2', 'service', { body: 'x' })).not.toBe(base)
    const wire = { method: 'GET', url: new URL('https://example.amazonaws.com/'), headers: {}, body: '' }
    const signed = signAwsRequest(wire, { ...KEYS, sessionToken: 't' }, { region: 'r', service: 's' }, AT)
    expect(signed).toMatchObject({
      'x-amz-security-token': 't',
      authorization: expect.stringContaining('host;x-amz-date;x-amz-security-token') as string,
    })
  })
})

const hasMoto = spawnSync('moto_server', ['--help'], { timeout: 60_000 }).status === 0

describe.skipIf(!hasMoto)("ECR's tokens, from moto's AWS (skipped where it is not installed)", () => {
  let child: ChildProcess
  let url: string
  const keys = { accessKeyId: '', secretAccessKey: '' }

  beforeAll(async () => {
    url = `http://127.0.0.1:${await freePort()}`
    child = spawn('moto_server', ['-H', '127.0.0.1', '-p', new URL(url).port], { stdio: 'ignore' })
    await answers(`${url}/moto-api/`)
    await call('CreateUser', { UserName: 'builder' })
    const policy = { Version: '2012-10-17', Statement: [{ Effect: 'Allow', Action: '*', Resource: '*' }] }
    await call('PutUserPolicy', {
      UserName: 'builder',
      PolicyName: 'all',
      PolicyDocument: JSON.stringify(policy),
    })
    const made = await call('CreateAccessKey', { UserName: 'builder' })
    keys.accessKeyId = /<AccessKeyId>([^<]+)/.exec(made)?.[1] ?? ''
    keys.secretAccessKey = /<SecretAccessKey>([^<]+)/.exec(made)?.[1] ?? ''
    // From here on moto checks keys, signatures and permissions.
    await fetch(`${url}/moto-api/reset-auth`, { method: 'POST', body: '0' })
  }, 150_000)
  afterAll(async () => {
    const ended = new Promise((resolve) => child.once('close', resolve))
    child.kill('SIGKILL')
    await ended
  })

  const call = async (action: string, fields: Record<string, string>) => {
    const wire = {
      method: 'POST',
      url: new URL(url),
      headers: { 'content-type': 'application/x-www-form-urlencoded; charset=utf-8' },
      body: new URLSearchParams({ Action: action, Version: '2010-05-08', ...fields }).toString(),
    }
    const { host: _host, ...headers } = signAwsRequest(
      wire,
      KEYS,
      { region: 'us-east-1', service: 'iam' },
      new Date(),
    )
    return (await fetch(url, { method: 'POST', headers, body: wire.body })).text()
  }
  const options = () => ({ region: 'us-west-2', keys, endpoints: { ecr: url, sts: url }, now: Date.now })

  it('are a name and a password for the registry', async () => {
    const credential = await ecrCredentials(ecrTokens(options()), Date.now)()
    expect(credential).toMatchObject({ username: 'AWS', password: expect.any(String) as string })
  })

  it('are refused for wrong keys', async () => {
    const wrong = ecrTokens({ ...options(), keys: { ...keys, secretAccessKey: 'other' } })
    await expect(wrong.authorizationToken()).rejects.toMatchObject({ code: 'UNAUTHORIZED' })
  })
})

const freePort = (): Promise<number> =>
  new Promise((resolve) => {
    const server = createServer()
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as AddressInfo
      server.close(() => resolve(port))
    })
  })

/** A Python program takes its time to start on a busy machine. */
const answers = async (url: string): Promise<void> => {
  const deadline = Date.now() + 120_000
  while (
    !(await fetch(url).then(
      (answer) => answer.ok,
      () => false,
    ))
  ) {
    if (Date.now() > deadline) throw new Error(`waited in vain for ${url}`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}
