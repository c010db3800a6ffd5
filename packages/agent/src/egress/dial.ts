import { lookup } from 'node:dns/promises'
import http from 'node:http'
import https from 'node:https'
import net, { isIP } from 'node:net'
import { isSpecialAddress } from '../ground/addresses.ts'
import { proxyFor, type ProxySettings } from '../ground/proxy.ts'
import { showTarget, type Target } from './target.ts'

const CONNECT_MS = 10_000

export type DialErrorCode = 'address_refused' | 'unreachable' | 'proxy_failed'

/** Its message may be shown to whoever runs the job; no address of the proxy's user is in it. */
export class DialError extends Error {
  readonly code: DialErrorCode
  readonly remedy: string

  constructor(code: DialErrorCode, message: string, remedy: string, options?: { cause?: unknown }) {
    super(message, options)
    this.name = 'DialError'
    this.code = code
    this.remedy = remedy
  }
}

export interface DialOptions {
  isSecure: boolean
  mayBeSpecial: boolean
  proxy: ProxySettings
}

export interface Dialed {
  socket: net.Socket
  via: 'direct' | 'proxy'
}

/** Through the proxy of the agent's machine where it has one for this target, else straight there. */
export async function dial(target: Target, options: DialOptions): Promise<Dialed> {
  const { isSecure, mayBeSpecial, proxy } = options
  const place = showTarget(target)
  if (isIP(target.host) !== 0 && !mayBeSpecial && isSpecialAddress(target.host)) throw special(place, place)
  const way = proxyFor(new URL(`${isSecure ? 'https' : 'http'}://${place}/`), proxy)
  if (way !== undefined) return { socket: await throughProxy(new URL(way), place), via: 'proxy' }
  return { socket: await straight(target, mayBeSpecial), via: 'direct' }
}

/** Resolved once: what was judged is what is connected to, whatever the name says a moment later. */
async function straight(target: Target, mayBeSpecial: boolean): Promise<net.Socket> {
  const place = showTarget(target)
  const found = await lookup(target.host, { all: true }).catch((cause: unknown) => {
    throw unreachable(`${place} has no address`, cause)
  })
  const usable = found.filter(({ address }) => mayBeSpecial || !isSpecialAddress(address))
  if (usable.length === 0) throw special(place, found[0]?.address ?? 'nothing')
  let last: unknown
  for (const { address } of usable.slice(0, 4)) {
    try {
      return await connect(address, target.port)
    } catch (error) {
      last = error
    }
  }
  throw unreachable(`${place} takes no connection`, last)
}

function connect(host: string, port: number): Promise<net.Socket> {
  return new Promise((resolve, reject) => {
    const socket = net.connect({ host, port, allowHalfOpen: true, noDelay: true })
    const late = setTimeout(() => socket.destroy(new Error('no answer in time')), CONNECT_MS)
    socket.once('error', (error) => {
      clearTimeout(late)
      reject(error)
    })
    socket.once('connect', () => {
      clearTimeout(late)
      socket.removeAllListeners('error')
      resolve(socket)
    })
  })
}

/** The proxy resolves the name: behind it, this machine often cannot. */
function throughProxy(proxy: URL, place: string): Promise<net.Socket> {
  const send = proxy.protocol === 'https:' ? https : http
  const user = [proxy.username, proxy.password].map((part) => decodeURIComponent(part)).join(':')
  const credentials = Buffer.from(user).toString('base64')
  return new Promise((resolve, reject) => {
    const request = send.request({
      host: proxy.hostname.replaceAll(/^\[|\]$/g, ''),
      port: Number(proxy.port) || (proxy.protocol === 'https:' ? 443 : 80),
      method: 'CONNECT',
      path: place,
      agent: false,
      timeout: CONNECT_MS,
      headers: { host: place, ...(user === ':' ? {} : { 'proxy-authorization': `Basic ${credentials}` }) },
    })
    request.once('timeout', () => request.destroy(new Error('no answer in time')))
    request.once('error', (cause) => reject(proxyFailed(place, proxy, cause.message, cause)))
    request.once('connect', ({ statusCode }, socket: net.Socket, head: Buffer) => {
      if (statusCode !== 200) {
        socket.destroy()
        const why = statusCode === 407 ? 'it wants other credentials (407)' : `it answered ${statusCode}`
        reject(proxyFailed(place, proxy, why))
        return
      }
      socket.setTimeout(0)
      if (head.byteLength > 0) socket.unshift(head)
      resolve(socket)
    })
    request.end()
  })
}

function special(place: string, address: string): DialError {
  return new DialError(
    'address_refused',
    `${place} leads to ${address}, an address of this machine or of its cloud's metadata.`,
    'Declare the address itself if the job is meant to reach it.',
  )
}

function unreachable(what: string, cause: unknown): DialError {
  const why = cause instanceof Error ? ` (${cause.message})` : ''
  return new DialError('unreachable', `${what}${why}.`, 'Check that it runs and that the agent reaches it.', {
    cause,
  })
}

function proxyFailed(place: string, proxy: URL, why: string, cause?: unknown): DialError {
  return new DialError(
    'proxy_failed',
    `The proxy ${proxy.host} does not connect to ${place}: ${why}.`,
    "Check HTTPS_PROXY and HTTP_PROXY of the agent, and the proxy's own rules.",
    { cause },
  )
}
