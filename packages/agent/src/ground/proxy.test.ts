import { describe, expect, it } from 'vitest'
import { proxyFor } from './proxy.ts'

const proxies = { httpsProxy: 'http://secure:1', httpProxy: 'http://plain:1' }
const via = (url: string, noProxy?: string) => proxyFor(new URL(url), { ...proxies, noProxy })

describe('the proxy for an address', () => {
  it('follows its scheme', () => {
    expect(via('https://a.example')).toBe('http://secure:1')
    expect(via('wss://a.example')).toBe('http://secure:1')
    expect(via('ws://a.example')).toBe('http://plain:1')
    expect(
      proxyFor(new URL('https://a'), { httpProxy: 'x', httpsProxy: undefined, noProxy: '' }),
    ).toBeUndefined()
  })

  it.each([
    ['https://a.example', '*'],
    ['https://a.example', 'a.example'],
    ['https://a.example', 'b.example, example'],
    ['https://a.example', '.example'],
    ['https://a.example', '*.example'],
    ['https://A.example', 'a.EXAMPLE'],
    ['https://a.example', 'a.example:443'],
    ['https://a.example:8443', 'a.example:8443'],
    ['https://10.1.2.3', '10.0.0.0/8'],
    ['https://10.1.2.3', '10.1.2.3'],
    ['https://[::1]:80', '::1'],
    ['https://[fd00::5]', 'fd00::/8'],
  ])('%s is reached directly when NO_PROXY is %s', (url, noProxy) => {
    expect(via(url, noProxy)).toBeUndefined()
  })

  it.each([
    ['https://a.example', 'b.example'],
    ['https://nota.example', 'a.example'],
    ['https://a.example', 'a.example:8443'],
    ['https://11.1.2.3', '10.0.0.0/8'],
    ['https://a.example', '10.0.0.0/8'],
    ['https://10.1.2.3', '10.0.0.0/99'],
  ])('%s goes through the proxy when NO_PROXY is %s', (url, noProxy) => {
    expect(via(url, noProxy)).toBe('http://secure:1')
  })
})
