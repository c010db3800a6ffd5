import { CallError } from '../errors.ts'
import { fn, type Functions } from '../functions/functions.ts'
import { hostName, parseUrl, urlText, userText } from './url.ts'
import { GoMap, kindName } from '../values/values.ts'

function split(text: string): GoMap {
  const url = saying('unable to parse url', () => parseUrl(text))
  const { scheme, host, path, query, opaque, fragment } = url
  return GoMap.of(
    Object.entries({
      scheme,
      host,
      hostname: hostName(host),
      path,
      query,
      opaque,
      fragment,
      userinfo: userText(url),
    }),
  )
}

function join(dict: GoMap): string {
  const part = (key: string): string => {
    const value = dict.has(key) ? dict.get(key) : ''
    if (typeof value === 'string') return value
    throw new CallError(`unable to parse ${key} key, must be of type string, but ${kindName(value)} found`)
  }
  const info = part('userinfo')
  const parsed = info && saying('unable to parse userinfo in dict', () => parseUrl(`proto://${info}@host`))
  return urlText({
    scheme: part('scheme'),
    host: part('host'),
    path: part('path'),
    query: part('query'),
    opaque: part('opaque'),
    fragment: part('fragment'),
    user: parsed ? parsed.user : undefined,
  })
}

function saying<T>(what: string, run: () => T): T {
  try {
    return run()
  } catch (error) {
    if (error instanceof CallError) throw new CallError(`${what}: ${error.message}`, { cause: error })
    throw error
  }
}

export const URL_FUNCTIONS: Functions = {
  urlParse: fn(['string'], split),
  urlJoin: fn(['dict'], join),
}
