import { mkdtemp, rm } from 'node:fs/promises'
import https from 'node:https'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { X509Certificate } from 'node:crypto'
import { pino } from 'pino'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { makeCertificate } from './certificate.ts'
import { serveJobApi, type JobApi } from './server.ts'
import { prepareCertificate } from './tls.ts'

const DAY = 86_400_000
const now = Date.now()
let dir: string
let api: JobApi | undefined

beforeEach(async () => {
  dir = await mkdtemp(path.join(tmpdir(), 'tenon-tls-'))
})
afterEach(async () => {
  await api?.close()
  api = undefined
  await rm(dir, { recursive: true, force: true })
})

describe('a certificate of our own making', () => {
  it.each(['agent.tenon.svc', '10.96.0.7', 'fd00::1:2', '::1'])('names %s and signs itself', (host) => {
    const { cert } = makeCertificate([host], new Date(now), new Date(now + 3650 * DAY))
    const parsed = new X509Certificate(cert)
    expect(parsed.verify(parsed.publicKey)).toBe(true)
    expect(parsed.checkIssued(parsed)).toBe(true)
    expect(parsed.checkHost(host) ?? parsed.checkIP(host)).toBe(host)
    expect(parsed.ca).toBe(true)
    expect(Math.abs(Date.parse(parsed.validTo) - (now + 3650 * DAY))).toBeLessThan(1000)
  })

  it('can end after 2049', () => {
    const { cert } = makeCertificate(['a'], new Date(now), new Date('2061-02-03T04:05:06Z'))
    expect(Date.parse(new X509Certificate(cert).validTo)).toBe(Date.parse('2061-02-03T04:05:06Z'))
  })

  it('stays the same for the next start, and is made anew for another address or near its end', async () => {
    const first = await prepareCertificate(dir, 'agent.svc', now)
    expect(await prepareCertificate(dir, 'agent.svc', now + 30 * DAY)).toEqual(first)
    expect(await prepareCertificate(dir, 'agent.svc', now + 3640 * DAY)).not.toEqual(first)
    expect(await prepareCertificate(dir, 'other.svc', now)).not.toEqual(first)
  })
})

describe('the job API over TLS', () => {
  it('answers who pins its certificate, and nobody is let in without', async () => {
    const certificate = await prepareCertificate(dir, '127.0.0.1', now)
    const secure = { host: '127.0.0.1', port: 0, certificate }
    const log = pino({ level: 'silent' })
    api = await serveJobApi({ socket: path.join(dir, 's'), authenticate: () => undefined, secure, log })
    const port = api.securePort ?? 0
    expect(await call(port, certificate.cert)).toContain('unauthorized')
    await expect(call(port, undefined)).rejects.toThrow(/self-signed|self signed/)
    const other = makeCertificate(['127.0.0.1'], new Date(now), new Date(now + DAY))
    await expect(call(port, other.cert)).rejects.toThrow(/certificate|signature/)
  })
})

function call(port: number, ca: string | undefined): Promise<string> {
  return new Promise((resolve, reject) => {
    const options = { host: '127.0.0.1', port, path: '/v1/manifest', agent: false, ...(ca ? { ca } : {}) }
    const request = https.get(options, (answer) => {
      let text = ''
      answer.on('data', (bytes: Buffer) => (text += bytes.toString()))
      answer.on('end', () => resolve(text))
    })
    request.on('error', reject)
  })
}
