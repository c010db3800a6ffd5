import { BlockList, isIP } from 'node:net'
import type { Agent } from 'node:http'
import { HttpsProxyAgent } from 'https-proxy-agent'

export interface ProxySettings {
  httpsProxy: string | undefined
  httpProxy: string | undefined
  noProxy: string | undefined
}

/** Pure: the proxy for this address, or undefined for a direct connection. */
export function proxyFor(url: URL, settings: ProxySettings): string | undefined {
  const secure = url.protocol === 'https:' || url.protocol === 'wss:'
  const proxy = secure ? settings.httpsProxy : settings.httpProxy
  if (!proxy) return undefined
  const entries = (settings.noProxy ?? '').split(/[\s,]+/).filter((entry) => entry !== '')
  return entries.some((entry) => isExempt(url, secure, entry.toLowerCase())) ? undefined : proxy
}

/** Both kinds of address go through CONNECT: a WebSocket needs a tunnel. */
export function proxyAgent(url: URL, settings: ProxySettings): Agent | undefined {
  const proxy = proxyFor(url, settings)
  return proxy === undefined ? undefined : new HttpsProxyAgent(proxy)
}

function isExempt(url: URL, secure: boolean, entry: string): boolean {
  if (entry === '*') return true
  const host = url.hostname.toLowerCase().replace(/^\[|\]$/g, '')
  if (entry.includes('/')) return isInRange(host, entry)
  const [, name = '', port] = /^(.*?)(?::(\d+))?$/.exec(isIP(entry) ? `${entry}` : entry) ?? []
  const exempt = isIP(entry) ? entry : name.replace(/^\*?\./, '')
  if (port !== undefined && !isIP(entry) && port !== (url.port || (secure ? '443' : '80'))) return false
  return host === exempt || (isIP(host) === 0 && host.endsWith(`.${exempt}`))
}

function isInRange(host: string, range: string): boolean {
  const [network = '', bits = ''] = range.split('/')
  const family = isIP(network)
  if (family === 0 || isIP(host) !== family) return false
  const type = family === 6 ? 'ipv6' : 'ipv4'
  try {
    const list = new BlockList()
    list.addSubnet(network, Number(bits), type)
    return list.check(host, type)
  } catch {
    return false
  }
}
