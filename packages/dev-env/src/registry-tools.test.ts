import { sha256Digest } from '@tenon/oci'
import { spawnSync } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openToolGround, TOOLS, type Person, type ToolGround } from './registry-tools.testing.ts'
import { until } from './until.ts'

/** Other people's programs against the vendor registry of a real server, signed in by `tenon registry login`. */

const isAbsent = (tool: string) => !existsSync(join(TOOLS, tool))
const isInstalled = (tool: string) => spawnSync(tool, ['--version'], { timeout: 60_000 }).status === 0
const noSkopeo = !isInstalled('skopeo')
const noPodman = process.getuid?.() !== 0 || !isInstalled('podman')

let ground: ToolGround
let host: string

beforeAll(async () => {
  ground = await openToolGround()
  host = new URL(ground.server.url).host
}, 240_000)
afterAll(() => ground.close(), 60_000)

const digestOf = (component: string) => ground.artifacts.get(component)!.digest
const repositoryOf = (component: string) => `${host}/apps/shop/${component}`
const byTag = (component: string) => `${repositoryOf(component)}:v1`
const byDigest = (component: string) => `${repositoryOf(component)}@${digestOf(component)}`

async function signedIn(name: string, ...tools: string[]): Promise<Person> {
  const somebody = await ground.person(name)
  await somebody.tenon('registry', 'login', '--tool', ...tools)
  return somebody
}

describe.skipIf(isAbsent('oras'))('oras (skipped where scripts/test-tools.mjs did not run)', () => {
  const oras = ({ tool }: Person, command: string, ...args: string[]) =>
    tool('oras', ...command.split(' '), '--plain-http', ...args)

  it('writes the file of an artifact, by its version or its digest, and lists versions and signatures', async () => {
    const anna = await signedIn('oras', 'oras')
    await oras(anna, 'pull', byTag('hello'))
    expect(anna.files()).toEqual(['script.tar.gz'])
    await anna.tool('tar', '-xzf', 'script.tar.gz')
    expect(anna.files()).toEqual(['deploy.sh', 'destroy.sh', 'script.tar.gz', 'status.sh'])
    await oras(anna, 'pull', byDigest('site'))
    expect(anna.files()).toContain('site-1.2.3.tgz')
    const described = await oras(anna, 'manifest fetch --descriptor', byTag('hello'))
    expect(JSON.parse(described)).toMatchObject({ digest: digestOf('hello') })
    expect(await oras(anna, 'repo tags', repositoryOf('hello'))).toBe('v1\n')
    expect(await oras(anna, 'repo tags', repositoryOf('site'))).toBe('1.2.3\nv1\n')
    const found = await oras(anna, 'discover --format json', byTag('hello'))
    expect(found.match(/"artifactType": "application\/vnd.dev.sigstore.bundle.v0.3\+json"/g)).toHaveLength(2)
  })

  it('cannot push, nor read what was sent for builds', async () => {
    const anna = await ground.person('pusher', 'operator')
    await anna.tenon('registry', 'login')
    writeFileSync(join(anna.work, 'mine'), 'mine')
    await expect(oras(anna, 'push', `${repositoryOf('hello')}:v2`, 'mine')).rejects.toThrow(/denied|403/i)
    await expect(oras(anna, 'repo tags', `${host}/tenon/sources`)).rejects.toThrow(/denied|403/i)
  })

  it('is refused once the API token is revoked, and after logout whatever file is put back', async () => {
    const [gone, out] = [await signedIn('gone', 'oras'), await signedIn('out', 'oras')]
    const pull = (who: Person) => oras(who, 'manifest fetch', byTag('hello'))
    for (const who of [gone, out]) expect(await pull(who)).toContain('schemaVersion')
    await ground.server.client.call('tokens.revoke', { params: { id: gone.tokenId } })
    await expect(pull(gone)).rejects.toThrow(/401|unauthorized/i)
    const file = join(out.home, '.docker', 'config.json')
    const kept = readFileSync(file)
    expect(await out.tenon('registry', 'logout')).toContain(file)
    await expect(pull(out)).rejects.toThrow(/401|unauthorized|credential/i)
    writeFileSync(file, kept)
    await expect(pull(out)).rejects.toThrow(/401|unauthorized/i)
  })
})

describe.skipIf(noSkopeo)('skopeo (skipped where it is not installed)', () => {
  it('inspects and copies what was built, through the file that podman has too', async () => {
    const anna = await signedIn('skopeo', 'skopeo')
    expect(existsSync(join(anna.home, 'run', 'containers', 'auth.json'))).toBe(true)
    const inspected = await anna.tool('skopeo', 'inspect', '--tls-verify=false', `docker://${byTag('web')}`)
    expect(JSON.parse(inspected)).toMatchObject({ Digest: digestOf('web'), RepoTags: ['v1'] })
    const policy = join(anna.home, 'policy.json')
    writeFileSync(policy, '{"default":[{"type":"insecureAcceptAnything"}]}')
    for (const component of ['web', 'hello']) {
      const from = ['--preserve-digests', '--src-tls-verify=false', `docker://${byDigest(component)}`]
      await anna.tool('skopeo', '--policy', policy, 'copy', ...from, `oci:${component}:v1`)
      const digest = digestOf(component).replace('sha256:', '')
      expect(existsSync(join(anna.work, component, 'blobs', 'sha256', digest))).toBe(true)
    }
  })
})

describe.skipIf(noPodman)('podman (skipped where it is not installed, or without root)', () => {
  it('pulls an image that was built', async () => {
    const anna = await signedIn('podman', 'podman')
    const [policy, storage] = [join(anna.home, 'policy.json'), join(anna.home, 'storage.conf')]
    writeFileSync(policy, '{"default":[{"type":"insecureAcceptAnything"}]}')
    const roots = `graphroot = "${anna.home}/root"\nrunroot = "${anna.home}/run-root"`
    writeFileSync(storage, `[storage]\ndriver = "vfs"\n${roots}\n`)
    const podman = (...args: string[]) =>
      anna.tool('env', `CONTAINERS_STORAGE_CONF=${storage}`, 'podman', ...args)
    const how = ['--quiet', '--tls-verify=false', '--signature-policy', policy]
    const id = (await podman('pull', ...how, byTag('web'))).trim()
    expect(await podman('image', 'inspect', '--format', '{{.Digest}}', id)).toBe(`${digestOf('web')}\n`)
  })
})

describe.each(['helm3', 'helm4'])('%s (skipped where scripts/test-tools.mjs did not run)', (helm) => {
  it.skipIf(isAbsent(helm))('pulls and renders a chart that was built', async () => {
    const anna = await signedIn(helm, 'helm')
    const chart = [`oci://${repositoryOf('site')}`, '--plain-http']
    await anna.tool(helm, 'pull', ...chart, '--version', '1.2.3')
    expect(anna.files()).toEqual(['site-1.2.3.tgz'])
    expect(await anna.tool(helm, 'template', 'x', ...chart)).toContain('kind: ConfigMap')
  })
})

describe.skipIf(isAbsent('cosign') || isAbsent('oras'))(
  'cosign (skipped where scripts/test-tools.mjs did not run)',
  () => {
    const withKey = (key = 'tenon.pub') => ['--key', key, '--insecure-ignore-tlog=true']
    const remote = (key?: string) => [...withKey(key), '--allow-http-registry']

    async function verifier(name: string): Promise<Person> {
      const anna = await signedIn(name, 'cosign', 'oras')
      writeFileSync(join(anna.work, 'tenon.pub'), await anna.tenon('keys', 'export', '--pem'))
      return anna
    }

    it('verifies the signature and the provenance of every artifact with the exported key', async () => {
      const anna = await verifier('cosign')
      for (const component of ['hello', 'site', 'web']) {
        expect(await anna.tool('cosign', 'verify', ...remote(), byTag(component))).toContain(
          digestOf(component),
        )
        const type = ['--type', 'slsaprovenance1']
        const told = await anna.tool(
          'cosign',
          'verify-attestation',
          ...type,
          ...remote(),
          byDigest(component),
        )
        const { payload } = JSON.parse(told) as { payload: string }
        const statement = JSON.parse(Buffer.from(payload, 'base64').toString()) as object
        expect(statement).toMatchObject({ subject: [{ name: `apps/shop/${component}` }] })
      }
    })

    it('refuses them under another key', async () => {
      const anna = await verifier('another-key')
      const { publicKey } = generateKeyPairSync('ed25519')
      writeFileSync(join(anna.work, 'tenon.pub'), publicKey.export({ format: 'pem', type: 'spki' }))
      const verify = anna.tool('cosign', 'verify', ...remote(), byTag('hello'))
      await expect(verify).rejects.toThrow(/signature/i)
    })

    it('verifies what was pulled, without any registry', async () => {
      const anna = await verifier('blobs')
      const fetch = async (...args: string[]) => anna.tool('oras', ...args, '--plain-http')
      await fetch('manifest', 'fetch', '--output', 'manifest.json', byDigest('hello'))
      expect(sha256Digest(readFileSync(join(anna.work, 'manifest.json')))).toBe(digestOf('hello'))
      const found = JSON.parse(await fetch('discover', '--format', 'json', byDigest('hello'))) as {
        referrers: { digest: string; annotations: Record<string, string> }[]
      }
      const provenance = found.referrers.find(
        ({ annotations }) =>
          annotations['dev.sigstore.bundle.predicateType'] === 'https://slsa.dev/provenance/v1',
      )
      await fetch('pull', `${repositoryOf('hello')}@${provenance!.digest}`)
      const verify = [
        'verify-blob-attestation',
        '--bundle',
        'provenance.sigstore.json',
        '--type',
        'slsaprovenance1',
        ...withKey(),
      ]
      await anna.tool('cosign', ...verify, 'manifest.json')
      writeFileSync(join(anna.work, 'manifest.json'), '{}')
      await expect(anna.tool('cosign', ...verify, 'manifest.json')).rejects.toThrow(/digest|subject/i)
    })

    it('verifies what was signed in the first form, and before a change of keys, once the server signed it again', async () => {
      const anna = await verifier('before')
      const verify = (key: string) => anna.tool('cosign', 'verify', ...remote(key), byTag('hello'))
      await ground.signAsBefore('hello')
      await expect(verify('tenon.pub')).rejects.toThrow(/signature/i)
      await ground.restart()
      const isVerified = () =>
        verify('tenon.pub').then(
          () => true,
          () => false,
        )
      await until('the artifact to be signed again', isVerified, 60)
      await ground.server.client.call('keys.rotate', {})
      writeFileSync(join(anna.work, 'new.pub'), await anna.tenon('keys', 'export', '--pem'))
      for (const key of ['tenon.pub', 'new.pub']) expect(await verify(key)).toContain(digestOf('hello'))
    })
  },
)
