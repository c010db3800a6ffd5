import http from 'node:http'
import https from 'node:https'
import { BlockList, isIP, type Socket } from 'node:net'
import tls from 'node:tls'

/** Ways through the proxies that variables name, for Node's own client; undefined where an address is reached directly. */
export interface ProxyRoutes {
  agentFor(url: URL): http.Agent | undefined
}

const CONNECT_MS = 10_000

/** Undefined when the variables name no proxy. Plain HTTP goes through a tunnel too: every proxy then sees names alone. */
export const proxyRoutes = (env: Record<string, string | undefined>): ProxyRoutes | undefined => {
  const { HTTP_PROXY: httpProxy, HTTPS_PROXY: httpsProxy, NO_PROXY: noProxy = '' } = env
  if (!httpProxy && !httpsProxy) return undefined
  const plain = httpProxy ? plainTunnel(new URL(httpProxy)) : undefined
  const secure = httpsProxy ? secureTunnel(new URL(httpsProxy)) : undefined
  const exempt = noProxy.split(/[\s,]+/).filter((entry) => entry !== '')
  return {
    agentFor: (url) => {
      if (exempt.some((entry) => isExempt(url, entry.toLowerCase()))) return undefined
      return url.protocol === 'https:' ? secure : plain
    },
  }
}

type Options = http.ClientRequestArgs & { servername?: string }
type Made = (error: Error | null, socket?: Socket) => void

const plainTunnel = (proxy: URL): http.Agent => {
  const agent = new http.Agent({ keepAlive: true })
  return overConnect(agent, proxy, (socket) => socket)
}

const secureTunnel = (proxy: URL): http.Agent => {
  const agent = new https.Agent({ keepAlive: true })
  return overConnect(agent, proxy, (socket, options) =>
    tls.connect({ ...(options as tls.ConnectionOptions), socket }),
  )
}

const overConnect = (
  agent: http.Agent,
  proxy: URL,
  dress: (socket: Socket, options: Options) => Socket,
): http.Agent => {
  const createConnection = (options: Options, made: Made): undefined => {
    const { host, port } = options
    const place = `${isIP(host ?? '') === 6 ? `[${host}]` : host}:${port}`
    openTunnel(proxy, place).then(
      (socket) => made(null, dress(socket, options)),
      (error: unknown) => made(error as Error),
    )
    return undefined
  }
  return Object.assign(agent, { createConnection })
}

const openTunnel = (proxy: URL, place: string): Promise<Socket> => {
  const isSecure = proxy.protocol === 'https:'
  const user = [proxy.username, proxy.password].map((part) => decodeURIComponent(part)).join(':')
  const authorization = `Basic ${Buffer.from(user).toString('base64')}`
  return new Promise((resolve, reject) => {
    const request = (isSecure ? https : http).request({
      host: proxy.hostname.replaceAll(/^\[|\]$/g, ''),
      port: Number(proxy.port) || (isSecure ? 443 : 80),
      method: 'CONNECT',
      path: place,
      agent: false,
      headers: { host: place, ...(user === ':' ? {} : { 'proxy-authorization': authorization }) },
    })
    const late = setTimeout(
      () => request.destroy(new Error(`${proxy.host} does not answer`)),
      CONNECT_MS,
    ).unref()
    request.once('close', () => clearTimeout(late))
    request.once('error', reject)
    request.once('connect', ({ statusCode }, socket: Socket, head: Buffer) => {
      clearTimeout(late)
      if (statusCode !== 200) {
        socket.destroy()
        reject(new Error(`the proxy ${proxy.host} answered ${statusCode} for ${place}`))
        return
      }
      if (head.byteLength > 0) socket.unshift(head)
      resolve(socket)
    })
    request.end()
  })
}

/** Pure: one entry of `NO_PROXY`: a host with or without port, a suffix, a range of addresses, or `*`. */
const isExempt = (url: URL, entry: string): boolean => {
  if (entry === '*') return true
  const host = url.hostname.replaceAll(/^\[|\]$/g, '')
  if (entry.includes('/')) return isInRange(host, entry)
  if (isIP(entry) !== 0) return host === entry
  const [, name = '', port] = /^(.*?)(?::(\d+))?$/.exec(entry) ?? []
  if (port !== undefined && port !== (url.port || (url.protocol === 'https:' ? '443' : '80'))) return false
  const suffix = name.replace(/^\*?\./, '')
  return host === suffix || (isIP(host) === 0 && host.endsWith(`.${suffix}`))
}

const isInRange = (host: string, range: string): boolean => {
  const [network = '', bits = ''] = range.split('/')
  const family = isIP(network)
  if (family === 0 || isIP(host) !== family || Number(bits) > (family === 6 ? 128 : 32)) return false
  const list = new BlockList()
  list.addSubnet(network, Number(bits), family === 6 ? 'ipv6' : 'ipv4')
  return list.check(host, family === 6 ? 'ipv6' : 'ipv4')
}
