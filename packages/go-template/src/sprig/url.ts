import { CallError } from '../errors.ts'
import { quote } from '../values/quote.ts'

/** Go's `net/url`, over byte strings. */
export interface Url {
  scheme: string
  opaque: string
  user: { name: string; password: string | undefined } | undefined
  host: string
  path: string
  query: string
  fragment: string
}

type Part = 'path' | 'host' | 'user' | 'fragment'

/** What each part of a URL may hold unescaped, besides letters, digits and `-_.~`. */
const ALLOWED: Readonly<Record<Part, string>> = {
  path: '$&+,/:;=@',
  host: '!$&\'()*+,;=:[]<>"',
  user: '$&+,;=',
  fragment: '$&+,/:;=?@!()*',
}

const mayStand = (byte: string, part: Part): boolean =>
  /[A-Za-z0-9\-_.~]/.test(byte) || ALLOWED[part].includes(byte)

function escape(text: string, part: Part): string {
  return text
    .split('')
    .map((byte) =>
      mayStand(byte, part) ? byte : `%${byte.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`,
    )
    .join('')
}

function unescape(text: string, part: Part): string {
  let out = ''
  for (let at = 0; at < text.length; at++) {
    const byte = text[at] as string
    if (byte !== '%') {
      if (part === 'host' && byte < '\x80' && !mayStand(byte, part)) {
        throw new CallError(`invalid character ${quote(byte)} in host name`)
      }
      out += byte
      continue
    }
    const code = text.slice(at, at + 3)
    const isAsciiInHost = part === 'host' && /^%[0-7]/.test(code) && code !== '%25'
    if (!/^%[0-9A-Fa-f]{2}$/.test(code) || isAsciiInHost)
      throw new CallError(`invalid URL escape ${quote(code)}`)
    out += String.fromCharCode(Number.parseInt(code.slice(1), 16))
    at += 2
  }
  return out
}

function cut(text: string, mark: string): [before: string, after: string] {
  const at = text.indexOf(mark)
  return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + mark.length)]
}

/** Throws a CallError in the words of Go's `url.Parse`. */
export function parseUrl(text: string): Url {
  const [main, fragment] = cut(text, '#')
  try {
    return { ...parseMain(main), fragment: unescape(fragment, 'fragment') }
  } catch (error) {
    if (!(error instanceof CallError)) throw error
    throw new CallError(`parse ${quote(main)}: ${error.message}`, { cause: error })
  }
}

function parseMain(text: string): Omit<Url, 'fragment'> {
  if ([...text].some((byte) => byte < ' ' || byte === '\x7f')) {
    throw new CallError('net/url: invalid control character in URL')
  }
  const { scheme, rest } = splitScheme(text)
  const [hierarchy, query] = cut(rest, '?')
  const url = { scheme, opaque: '', user: undefined, host: '', path: '', query }
  if (!hierarchy.startsWith('/')) {
    if (scheme) return { ...url, opaque: hierarchy }
    if (cut(hierarchy, '/')[0].includes(':')) {
      throw new CallError('first path segment in URL cannot contain colon')
    }
  }
  const hasAuthority = hierarchy.startsWith('//') && (scheme !== '' || !hierarchy.startsWith('///'))
  if (!hasAuthority) return { ...url, path: unescape(hierarchy, 'path') }
  const slash = hierarchy.indexOf('/', 2)
  const end = slash < 0 ? hierarchy.length : slash
  return { ...url, ...parseAuthority(hierarchy.slice(2, end)), path: unescape(hierarchy.slice(end), 'path') }
}

function splitScheme(text: string): { scheme: string; rest: string } {
  if (text.startsWith(':')) throw new CallError('missing protocol scheme')
  const [, scheme] = /^([A-Za-z][A-Za-z0-9+.-]*):/.exec(text) ?? []
  if (scheme === undefined) return { scheme: '', rest: text }
  return { scheme: scheme.toLowerCase(), rest: text.slice(scheme.length + 1) }
}

function parseAuthority(text: string): Pick<Url, 'user' | 'host'> {
  const at = text.lastIndexOf('@')
  const host = parseHost(text.slice(at + 1))
  if (at < 0) return { host, user: undefined }
  const info = text.slice(0, at)
  if (!/^[A-Za-z0-9\-._:~!$&'()*+,;=%@]*$/.test(info)) throw new CallError('net/url: invalid userinfo')
  const [name, password] = cut(info, ':')
  const hasPassword = info.includes(':')
  return {
    host,
    user: { name: unescape(name, 'user'), password: hasPassword ? unescape(password, 'user') : undefined },
  }
}

function parseHost(text: string): string {
  const close = text.lastIndexOf(']')
  if (text.startsWith('[') && close < 0) throw new CallError("missing ']' in host")
  const colon = text.lastIndexOf(':')
  const port = text.startsWith('[') ? text.slice(close + 1) : colon < 0 ? '' : text.slice(colon)
  if (!/^(?::[0-9]*)?$/.test(port)) throw new CallError(`invalid port ${quote(port)} after host`)
  return unescape(text, 'host')
}

export function userText({ user }: Pick<Url, 'user'>): string {
  if (!user) return ''
  const password = user.password === undefined ? '' : `:${escape(user.password, 'user')}`
  return escape(user.name, 'user') + password
}

export function hostName(host: string): string {
  const bracketed = /^\[([^\]]*)\]/.exec(host)?.[1]
  if (bracketed !== undefined) return bracketed
  const colon = host.lastIndexOf(':')
  return colon < 0 ? host : host.slice(0, colon)
}

export function urlText(url: Url): string {
  let out = url.scheme && `${url.scheme}:`
  if (url.opaque) out += url.opaque
  else {
    if (url.host || url.user || (url.scheme && url.path)) out += '//'
    if (url.user) out += `${userText(url)}@`
    out += escape(url.host, 'host')
    const path = escape(url.path, 'path')
    if (path && !path.startsWith('/') && url.host) out += '/'
    if (out === '' && cut(path, '/')[0].includes(':')) out += './'
    out += path
  }
  if (url.query) out += `?${url.query}`
  return url.fragment ? `${out}#${escape(url.fragment, 'fragment')}` : out
}
