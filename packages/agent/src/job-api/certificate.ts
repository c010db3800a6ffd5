import { createHash, generateKeyPairSync, randomBytes, sign } from 'node:crypto'
import { isIP } from 'node:net'

/** A key and the certificate that it signed for itself, both as PEM. */
export interface OwnCertificate {
  key: string
  cert: string
}

const OID = {
  ecdsaWithSha256: '2a8648ce3d040302',
  commonName: '550403',
  subjectKeyId: '551d0e',
  keyUsage: '551d0f',
  alternativeNames: '551d11',
  basicConstraints: '551d13',
  extendedKeyUsage: '551d25',
  serverAuth: '2b06010505070301',
} as const

/** A certificate of its own making: who pins it trusts this server and nothing else. P-256, X.509 version 3. */
export function makeCertificate(hosts: string[], from: Date, until: Date): OwnCertificate {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const subjectKey = publicKey.export({ type: 'spki', format: 'der' })
  const algorithm = sequence(oid(OID.ecdsaWithSha256))
  const name = sequence(der(0x31, sequence(oid(OID.commonName), der(0x0c, Buffer.from('tenon job API')))))
  const serial = randomBytes(16)
  serial[0] = ((serial[0] ?? 0) & 0x7f) | 0x40
  const body = sequence(
    der(0xa0, integer(Buffer.of(2))),
    integer(serial),
    algorithm,
    name,
    sequence(time(from), time(until)),
    name,
    subjectKey,
    der(0xa3, sequence(...extensions(hosts, subjectKey))),
  )
  const signature = sign('sha256', body, privateKey)
  const whole = sequence(body, algorithm, bits(signature))
  return { key: String(privateKey.export({ type: 'pkcs8', format: 'pem' })), cert: pem(whole) }
}

/** It signs itself, so it is its own authority; OpenSSL wants that said. */
function extensions(hosts: string[], subjectKey: Buffer): Buffer[] {
  const keyId = createHash('sha1').update(subjectKey).digest()
  // digitalSignature and keyCertSign.
  const usage = der(0x03, Buffer.of(2, 0b1000_0100))
  return [
    extension(OID.basicConstraints, true, sequence(der(0x01, Buffer.of(0xff)))),
    extension(OID.keyUsage, true, usage),
    extension(OID.extendedKeyUsage, false, sequence(oid(OID.serverAuth))),
    extension(OID.subjectKeyId, false, der(0x04, keyId)),
    extension(OID.alternativeNames, false, sequence(...hosts.map(alternativeName))),
  ]
}

function extension(id: string, isCritical: boolean, value: Buffer): Buffer {
  const critical = isCritical ? [der(0x01, Buffer.of(0xff))] : []
  return sequence(oid(id), ...critical, der(0x04, value))
}

function alternativeName(host: string): Buffer {
  return isIP(host) === 0 ? der(0x82, Buffer.from(host)) : der(0x87, addressBytes(host))
}

function addressBytes(host: string): Buffer {
  if (isIP(host) === 4) return Buffer.from(host.split('.').map(Number))
  const [head = '', tail] = host.split('::')
  const words = (text: string) =>
    text === '' ? [] : text.split(':').map((word) => Number.parseInt(word, 16))
  const [front, back] = [words(head), words(tail ?? '')]
  const filled = [...front, ...Array<number>(8 - front.length - back.length).fill(0), ...back]
  return Buffer.concat(filled.map((word) => Buffer.of(word >> 8, word & 0xff)))
}

/** UTCTime until 2049, GeneralizedTime after, as the standard has it. */
function time(date: Date): Buffer {
  const digits = date.toISOString().replaceAll(/[-:T]|\..*/g, '')
  return date.getUTCFullYear() < 2050
    ? der(0x17, Buffer.from(`${digits.slice(2)}Z`))
    : der(0x18, Buffer.from(`${digits}Z`))
}

function sequence(...parts: Buffer[]): Buffer {
  return der(0x30, Buffer.concat(parts))
}

function integer(bytes: Buffer): Buffer {
  return der(0x02, bytes)
}

function oid(hex: string): Buffer {
  return der(0x06, Buffer.from(hex, 'hex'))
}

function bits(bytes: Buffer): Buffer {
  return der(0x03, Buffer.concat([Buffer.of(0), bytes]))
}

function der(tag: number, content: Buffer): Buffer {
  const { length } = content
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.of(tag, ...size), content])
}

function pem(bytes: Buffer): string {
  const lines = bytes.toString('base64').match(/.{1,64}/g) ?? []
  return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`
}
