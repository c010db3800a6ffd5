import { isIP } from 'node:net'

export interface Target {
  /** In lower case, an IPv6 address without brackets. */
  host: string
  port: number
}

/** Pure: `host:port` or `[address]:port`; undefined when it is neither. */
export function parseTarget(text: string): Target | undefined {
  const [, bracketed, plain, digits] = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+)):(\d{1,5})$/i.exec(text) ?? []
  const host = near((bracketed ?? plain)?.toLowerCase().replace(/\.$/, ''))
  const port = Number(digits)
  if (host === undefined || host === '' || port < 1 || port > 65_535) return undefined
  if (bracketed !== undefined && isIP(bracketed) !== 6) return undefined
  return { host, port }
}

/** Pure. */
export function targetOf(url: URL): Target {
  const host = url.hostname.toLowerCase().replaceAll(/^\[|\]$/g, '')
  return { host: near(host), port: Number(url.port) || (url.protocol === 'http:' ? 80 : 443) }
}

/** One word for this machine: a forwarded port listens on an address, not on a name. */
function near<H extends string | undefined>(host: H): H | '127.0.0.1' {
  return host === 'localhost' ? '127.0.0.1' : host
}

export function isSame(a: Target, b: Target): boolean {
  return a.host === b.host && a.port === b.port
}

export function showTarget({ host, port }: Target): string {
  return isIP(host) === 6 ? `[${host}]:${port}` : `${host}:${port}`
}

/** Pure: an address of the machine itself, written as such. */
export function isLoopback({ host }: Target): boolean {
  return host === '::1' || (isIP(host) === 4 && host.startsWith('127.'))
}
