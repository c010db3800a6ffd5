import { describe, expect, it } from 'vitest'
import { isImageName, parseCredentialFile, registryUrl, wholeImageName } from './index.ts'

describe('the name of an image', () => {
  it.each([
    ['nginx', 'docker.io/library/nginx:latest'],
    ['nginx:1.27', 'docker.io/library/nginx:1.27'],
    ['bitnami/redis:7', 'docker.io/bitnami/redis:7'],
    ['index.docker.io/library/nginx:1', 'docker.io/library/nginx:1'],
    ['localhost/app', 'localhost/app:latest'],
    ['quay.io/a/b/c:v1', 'quay.io/a/b/c:v1'],
    ['127.0.0.1:5000/a:v1', '127.0.0.1:5000/a:v1'],
    [`ghcr.io/a/b@sha256:${'a'.repeat(64)}`, `ghcr.io/a/b@sha256:${'a'.repeat(64)}`],
  ])('%s is %s', (name, whole) => {
    expect(wholeImageName(name)).toBe(whole)
  })

  it.each(['', 'UPPER/case', 'a b', 'nginx:', '-x', 'a/b@sha256:short', '../etc'])('is not %j', (name) => {
    expect(isImageName(name)).toBe(false)
  })

  it('leads to its registry, encrypted unless it is on this machine', () => {
    expect(registryUrl('quay.io')).toBe('https://quay.io')
    expect(registryUrl('docker.io')).toMatch(/^https:/)
    expect(registryUrl('127.0.0.1:5000')).toBe('http://127.0.0.1:5000')
    expect(registryUrl('127.0.0.1.example.com')).toBe('https://127.0.0.1.example.com')
  })
})

describe('a file of registry credentials', () => {
  const auth = (text: string) => Buffer.from(text).toString('base64')

  it('gives what docker login wrote, for that host alone', async () => {
    const find = parseCredentialFile(
      JSON.stringify({
        auths: {
          'https://index.docker.io/v1/': { auth: auth('me:hub:secret') },
          'quay.io': { username: 'u', password: 'p' },
          'a.example.com:8080': { registrytoken: 't' },
          'empty.example.com': {},
        },
      }),
    )
    expect(await find('docker.io')?.()).toEqual({ username: 'me', password: 'hub:secret' })
    expect(await find('quay.io')?.()).toEqual({ username: 'u', password: 'p' })
    expect(await find('a.example.com:8080')?.()).toEqual({ bearer: 't' })
    expect(find('a.example.com')).toBeUndefined()
    expect(find('empty.example.com')).toBeUndefined()
  })

  it.each(['', '[', '"x"', JSON.stringify({ auths: { a: { auth: auth('nocolon') } } })])(
    'refuses %j',
    (text) => {
      expect(() => parseCredentialFile(text)).toThrow(/docker login/)
    },
  )
})
