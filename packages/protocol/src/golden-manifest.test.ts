import {
  canonicalText,
  documentDigest,
  nestManifest,
  parseDocument,
  type JobManifest,
  type ManifestBody,
} from '@tenon/core'
import { createHash } from 'node:crypto'
import { expect, it } from 'vitest'
import { readManifest } from './manifest.ts'

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')

/** A manifest of 0.2, byte for byte: approvals and audit entries name its digests, so no later version may read or make another. */
const TEXT =
  '{"body":{"kind":"deploy","limits":{"cpus":1,"graceSeconds":15,"memoryBytes":1073741824,"pids":512,"timeoutSeconds":1800},"network":{"mode":"egress","names":["api.example.com:443"]},"operations":[{"approvedPlan":null,"artifacts":[{"digest":"sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","name":"artifact","repository":"apps/shop/web"}],"component":"web","config":{"component":{"port":80.5,"é":"{{ .inputs.size }}"},"type":"script"},"configDigest":"sha256:9a695e343086314c2155d42da12f5e8141a202188fd8699e62963bcea20b1fb3","operation":"deploy","plugin":{"digest":"sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","name":"script","repository":"tenon/plugins/script"}}],"requires":[{"feature":"network","since":"0.2"}],"role":"maintenance","serverId":"srv_1","target":{"installId":"ins_00000000000000000000000000","role":"install"}},"content":"sha256:4e0a0e78b0150ea24a2dd7443a1544f2e67e49a3d1077986d73f4e7f5cd1a1ab","expiresAt":"2026-11-15T12:30:00.000Z","fence":3,"issuedAt":"2026-11-15T12:00:00.000Z","jobId":"job_00000000000000000000000000","notBefore":"2026-11-15T12:00:00.000Z","version":2}'

it('a manifest of 0.2 is read as it was meant', () => {
  expect(readManifest(TEXT)).toMatchObject({
    kind: 'deploy',
    jobId: 'job_00000000000000000000000000',
    fence: 3,
    network: { mode: 'egress', names: ['api.example.com:443'] },
    requires: [{ feature: 'network', since: '0.2' }],
    operations: [{ operation: 'deploy', config: { component: { port: 80.5 } } }],
  })
})

it('a manifest of 0.2 has the digests that it had, and the same is signed today', () => {
  const signed = parseDocument(TEXT) as { body: ManifestBody }
  const { jobId, fence, issuedAt, notBefore, expiresAt } = readManifest(TEXT) as JobManifest
  const operations = signed.body.operations.map((one) => {
    const { configDigest: _, ...planned } = one
    return planned
  })
  const draft = { ...signed.body, operations }
  const again = nestManifest({ jobId, fence, issuedAt, notBefore, expiresAt }, draft, sha256)
  expect(canonicalText(again)).toBe(TEXT)
  expect(documentDigest(TEXT, sha256)).toBe(
    'sha256:9e754f7f3dff063dea8bcd0c2eb996e0d012a3574e97f5bf22f581cc614f5c34',
  )
})
