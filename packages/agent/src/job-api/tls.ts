import { X509Certificate } from 'node:crypto'
import { isIP } from 'node:net'
import path from 'node:path'
import { z } from 'zod'
import { readIfThere, replaceFile } from '../ground/durable-file.ts'
import { makeCertificate, type OwnCertificate } from './certificate.ts'

const memorySchema = z.object({ key: z.string(), cert: z.string() })
const DAY_MS = 86_400_000
const VALID_MS = 3650 * DAY_MS
/** Running jobs pin it, so it is changed only when no job that knows it can live any more. */
const RENEW_MS = 60 * DAY_MS

/** The job API's certificate for this host: the same after every restart, since running jobs know it. */
export async function prepareCertificate(dir: string, host: string, nowMs: number): Promise<OwnCertificate> {
  const file = path.join(dir, 'api-tls.json')
  const known = parse(await readIfThere(file))
  if (known !== undefined && serves(known, host, nowMs)) return known
  const made = makeCertificate([host], new Date(nowMs - DAY_MS), new Date(nowMs + VALID_MS))
  await replaceFile(file, `${JSON.stringify(made)}\n`)
  return made
}

function serves({ cert }: OwnCertificate, host: string, nowMs: number): boolean {
  const parsed = new X509Certificate(cert)
  const isNamed = (isIP(host) === 0 ? parsed.checkHost(host) : parsed.checkIP(host)) !== undefined
  return isNamed && Date.parse(parsed.validTo) - RENEW_MS > nowMs
}

function parse(text: string | undefined): OwnCertificate | undefined {
  try {
    return memorySchema.parse(JSON.parse(text ?? ''))
  } catch {
    return undefined
  }
}
