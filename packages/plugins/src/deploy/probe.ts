import http from 'node:http'
import https from 'node:https'
import net, { isIP, type Socket } from 'node:net'
import tls from 'node:tls'
import { proxyRoutes } from '@tenon/oci'
import type { ToolContext } from './run-tool.ts'

/** Why a probe is not good, for people. */
export interface Trouble {
  words: string
  /** The job may not go there: asking again is useless. */
  isRefused?: boolean
}

type Way = Pick<ToolContext, 'baseEnv' | 'dial' | 'signal'>

const PROBE_MS = 5000

/** Good is any answer below 400; a redirect is one. */
export async function httpTrouble(way: Way, url: string): Promise<Trouble | undefined> {
  const signal = AbortSignal.any([way.signal, AbortSignal.timeout(PROBE_MS)])
  try {
    const status = await ask(new URL(url), way, signal)
    return status < 400 ? undefined : { words: `${url} answers ${status}` }
  } catch (error) {
    return troubleOf(`${url} does not answer`, error, signal)
  }
}

/** Good is a connection. */
export async function tcpTrouble(way: Way, url: string): Promise<Trouble | undefined> {
  const [, host = '', port = ''] = /^(?:tcp:\/\/)?\[?([^\]/]+?)\]?:(\d+)\/?$/.exec(url) ?? []
  if (host === '') return { words: `${url} is not host:port` }
  const signal = AbortSignal.any([way.signal, AbortSignal.timeout(PROBE_MS)])
  const place = { host, port: Number(port) }
  try {
    const socket = await (way.dial?.(placeOf(host, port), signal) ?? connect({ ...place, signal }))
    socket.destroy()
    return undefined
  } catch (error) {
    return troubleOf(`${url} refuses a connection`, error, signal)
  }
}

/** Its status; each probe connects anew, so that one that nobody accepts any more shows. */
async function ask(url: URL, { dial, baseEnv }: Way, signal: AbortSignal): Promise<number> {
  const isSecure = url.protocol === 'https:'
  const host = url.hostname.replaceAll(/^\[|\]$/g, '')
  const socket = await dial?.(placeOf(host, url.port || (isSecure ? '443' : '80')), signal)
  const servername = isIP(host) === 0 ? host : ''
  const way = socket
    ? { createConnection: () => (isSecure ? tls.connect({ socket, servername }) : socket) }
    : { agent: proxyRoutes(baseEnv)?.agentFor(url) ?? (false as const) }
  return new Promise((resolve, reject) => {
    const request = (isSecure ? https : http).request(url, { ...way, signal })
    request.once('error', reject)
    request.once('response', ({ statusCode = 0 }) => {
      resolve(statusCode)
      request.destroy()
    })
    request.end()
  })
}

function connect(options: net.TcpNetConnectOpts & { signal: AbortSignal }): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = net.connect(options, () => resolve(socket))
    socket.once('error', reject)
  })
}

function placeOf(host: string, port: string): string {
  return `${isIP(host) === 6 ? `[${host}]` : host}:${port}`
}

/** What refused comes from the job program, whose classes a plugin's bundle does not share. */
function troubleOf(what: string, error: unknown, signal: AbortSignal): Trouble {
  const isRefused = error instanceof Error && 'isRefused' in error && error.isRefused === true
  const message = error instanceof Error ? error.message : String(error)
  const why = signal.aborted ? 'it took too long' : message
  return { words: `${what}: ${why}`, ...(isRefused ? { isRefused } : {}) }
}
