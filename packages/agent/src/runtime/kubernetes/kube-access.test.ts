import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { openAccess } from './kube-access.ts'
import { parseYaml } from './simple-yaml.ts'

const dir = await mkdtemp(path.join(tmpdir(), 'tenon-access-'))
const env = { host: undefined, port: undefined }
afterAll(() => rm(dir, { recursive: true, force: true }))

const BLOCK = `# made by hand
apiVersion: v1
kind: Config
current-context: "two"   # the second
clusters:
- name: a
  cluster:
    server: https://a.example:6443
    certificate-authority-data: ${Buffer.from('CA').toString('base64')}
- cluster: {server: 'https://b.example', insecure-skip-tls-verify: true}
  name: b
contexts:
  - name: one
    context: { cluster: b, user: u }
  - context:
      cluster: a
      namespace: work
      user: u
    name: two
users:
- name: u
  user:
    client-certificate: cert.pem
    client-key-data: ${Buffer.from('KEY').toString('base64')}
    tokenFile: token
preferences: {}
`

describe('a kubeconfig', () => {
  it('is read as kubectl writes it', async () => {
    const file = path.join(dir, 'config')
    await writeFile(file, BLOCK)
    await writeFile(path.join(dir, 'cert.pem'), 'CERT')
    await writeFile(path.join(dir, 'token'), 'tok\n')
    const access = await openAccess(file, env)
    expect(access).toMatchObject({
      server: 'https://a.example:6443',
      namespace: 'work',
      tls: { ca: 'CA', cert: 'CERT', key: 'KEY' },
    })
    expect(await access.token()).toBe('tok')
  })

  it.each([
    ['has no context', 'clusters: []\nusers: []\ncontexts: []\n', /names no cluster and user/],
    ['is none', 'a: 1\n', /it is not one/],
    [
      'logs in by a program',
      BLOCK.replace('tokenFile: token', 'exec: {command: aws}'),
      /logs in by a program/,
    ],
  ])('that %s is refused in words', async (_what, text, words) => {
    const file = path.join(dir, 'bad')
    await writeFile(file, text)
    await expect(openAccess(file, env)).rejects.toThrow(words)
  })

  it('is asked for where the agent runs in no pod', async () => {
    await expect(openAccess(undefined, env)).rejects.toThrow(/KUBECONFIG/)
  })
})

describe('the YAML of kubeconfigs', () => {
  it.each([
    ['a: "x # y" # z', { a: 'x # y' }],
    ["a: 'it''s'", { a: "it's" }],
    ['a:\n- 1\n- b: c\n  d: [x, "y z"]', { a: [1, { b: 'c', d: ['x', 'y z'] }] }],
    ['a: http://x:1/y#z', { a: 'http://x:1/y#z' }],
    ['a:\nb: ~', { a: null, b: null }],
  ])('%j is understood', (text, value) => {
    expect(parseYaml(text)).toEqual(value)
  })

  it.each(['- - a', 'a: |\n  text', 'a: &x 1', 'a: b\n   c: d'])('%j is not misread', (text) => {
    expect(() => parseYaml(text)).toThrow(/not understood/)
  })
})
