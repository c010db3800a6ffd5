import { EnvHttpProxyAgent } from 'undici'
import type { Dispatcher } from 'undici'

/** Sends requests through the proxies that variables name; undefined when they name none. */
export const proxyDispatcher = (env: Record<string, string | undefined>): Dispatcher | undefined => {
  const { HTTP_PROXY: httpProxy, HTTPS_PROXY: httpsProxy, NO_PROXY: noProxy } = env
  if (!httpProxy && !httpsProxy) return undefined
  return new EnvHttpProxyAgent({
    ...(httpProxy ? { httpProxy } : {}),
    ...(httpsProxy ? { httpsProxy } : {}),
    noProxy: noProxy ?? '',
  })
}
