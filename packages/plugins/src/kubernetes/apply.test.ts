import { existsSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { deleteObjects, isAbsent } from './apply.ts'
import { openCluster, type ClusterContext } from './cluster.ts'
import type { KubeObject } from './objects.ts'

const web: KubeObject = { apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name: 'web' } }
const tools = process.env['TENON_TEST_TOOLS'] ?? join(homedir(), '.cache/tenon-tools/bin')
const absent = existsSync(join(tools, 'kubectl')) ? undefined : `no kubectl in ${tools}`

describe('an object that is not there', () => {
  it.each([
    ['the object', 'Error from server (NotFound): deployments.apps "web" not found', true],
    [
      'the object, in other words',
      'Error from server (NotFound): error when deleting "STDIN": deployments.apps "web" not found',
      true,
    ],
    [
      'its kind',
      'error: resource mapping not found for name: "web" namespace: "" from "STDIN": no matches for kind "Deployment" in version "apps/v1"\nensure CRDs are installed first',
      true,
    ],
    [
      'its kind, while the cluster cannot tell its kinds',
      'E1116 memcache.go:265] couldn\'t get resource list for apps/v1: the server is currently unable to handle the request\nerror: no matches for kind "Deployment" in version "apps/v1"',
      false,
    ],
    [
      'its kind, beside one about kinds of others',
      'E1116 memcache.go:265] couldn\'t get resource list for metrics.k8s.io/v1beta1: no\nerror: no matches for kind "Deployment" in version "apps/v1"',
      true,
    ],
    ['another object', 'Error from server (NotFound): namespaces "shop" not found', false],
    ['anything', 'Error from server (NotFound): the server could not find the requested resource', false],
    ['a login', 'error: exec: executable aws not found', false],
    ['a context', 'error: context "prod" not found', false],
    ['a host', 'Unable to connect to the server: dial tcp: lookup api: host not found', false],
  ])('is told from a complaint about %s', (_, complaint, expected) => {
    expect(isAbsent(web, complaint)).toBe(expected)
  })
})

describe.skipIf(absent)(`a removal${absent === undefined ? '' : ` (skipped: ${absent})`}`, () => {
  let dir: string
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'tenon-apply-'))
  })
  afterAll(() => rm(dir, { recursive: true, force: true }))

  it('does not count as done where the cluster cannot be logged in to', async () => {
    const exec = { apiVersion: 'client.authentication.k8s.io/v1', command: 'no-such-login' }
    const config = {
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'c', cluster: { server: 'https://127.0.0.1:9' } }],
      users: [{ name: 'u', user: { exec: { ...exec, interactiveMode: 'Never' } } }],
      contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
      'current-context': 'x',
    }
    const kubeconfig = join(dir, 'kubeconfig')
    await writeFile(kubeconfig, JSON.stringify(config))
    const context = {
      baseEnv: { PATH: `${tools}:/usr/bin:/bin` },
      log: () => undefined,
      signal: new AbortController().signal,
      manifest: { limits: { timeoutSeconds: 60, graceSeconds: 1 } },
      job: { kubeconfig },
      workDir: dir,
    } as unknown as ClusterContext
    const removal = deleteObjects(await openCluster(context), 'shop', [web])
    await expect(removal).rejects.toMatchObject({ code: 'cluster_refused' })
    await expect(removal).rejects.toThrow('not found')
  }, 60_000)
})
