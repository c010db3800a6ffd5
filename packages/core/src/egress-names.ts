import { requirement, type Requirement } from './features.ts'
import { SERVER_NAME, type JobNetwork } from './job-network.ts'

/** What an app declares that a component or an action calls. */
export interface EgressName {
  /** A host name, `*.` and a domain, or an address. */
  host: string
  port: number
}

/** Pure: the network of jobs that declare what they call; undefined where nothing is declared. */
export function declaredNetwork(egress: readonly EgressName[] | undefined): JobNetwork | undefined {
  if (egress === undefined || egress.length === 0) return undefined
  const names = egress.map(({ host, port }) => `${host.includes(':') ? `[${host}]` : host}:${port}`)
  return { mode: 'egress', names: [...new Set(names.map((name) => name.toLowerCase()))] }
}

/** Pure: an agent that does not keep to a network narrower than its own must not run the job; a sync is narrow by itself. */
export function requiredByNetwork({ mode, names }: JobNetwork): Requirement[] {
  const isNarrow = mode === 'egress' ? names.some((name) => name !== SERVER_NAME) : mode !== 'open'
  return isNarrow ? [requirement('job-networks')] : []
}

export const EGRESS_HOST = 'a host name, *. and a domain, or an IP address'

const LABEL = /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/i

/** Pure. Other ways to write an address (`127.1`, `0x7f.1`) are no names. */
export function isEgressHost(host: string): boolean {
  if (host.length > 253) return false
  if (host.includes(':')) return /^[0-9a-f:.]+$/i.test(host) && URL.canParse(`http://[${host}]/`)
  if (/^[\d.]+$/.test(host)) return octetsOf(host) !== undefined
  const labels = host.replace(/^\*\./, '').split('.')
  const last = labels.at(-1) ?? ''
  const isNumber = !/[a-z]/i.test(last) || /^0x/i.test(last)
  return (
    labels.every((label) => LABEL.test(label)) && !isNumber && (!host.startsWith('*') || labels.length > 1)
  )
}

const METADATA_NAMES = ['metadata', 'metadata.google.internal', 'instance-data', 'instance-data.ec2.internal']
const METADATA_ADDRESSES = ['100.100.100.200', '168.63.129.16', '192.0.0.192']

/** Pure: the machine itself or its cloud's metadata, which no app has a reason to call. The agent refuses what leads there. */
export function isSpecialEgressHost(host: string): boolean {
  const name = host.toLowerCase()
  if (name.includes(':')) return isSpecialIpv6(new URL(`http://[${name}]/`).hostname.slice(1, -1))
  const octets = octetsOf(name)
  if (octets) return isSpecialIpv4(octets)
  return name === 'localhost' || name.endsWith('.localhost') || METADATA_NAMES.includes(name)
}

function isSpecialIpv4(octets: readonly number[]): boolean {
  const [first = 0, second] = octets
  const isLinkLocal = first === 169 && second === 254
  return (
    [0, 127].includes(first) || first >= 224 || isLinkLocal || METADATA_ADDRESSES.includes(octets.join('.'))
  )
}

/** In the one short form that a URL has. */
function isSpecialIpv6(address: string): boolean {
  const embedded = /^(?:::ffff:|64:ff9b::|::)([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(address)
  if (embedded) {
    const [high, low] = [embedded[1]!, embedded[2]!].map((part) => Number.parseInt(part, 16))
    return isSpecialIpv4([high! >> 8, high! & 255, low! >> 8, low! & 255])
  }
  return ['::', '::1', 'fd00:ec2::254', 'fd20:ce::254'].includes(address) || /^(?:fe[89ab]|ff)/.test(address)
}

/** The four numbers of an IPv4 address as everybody writes it. */
function octetsOf(host: string): number[] | undefined {
  if (!/^(?:(?:0|[1-9]\d{0,2})(?:\.(?!$)|$)){4}$/.test(host)) return undefined
  const octets = host.split('.').map(Number)
  return octets.every((octet) => octet <= 255) ? octets : undefined
}
