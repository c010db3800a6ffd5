import { documentDigest, signDocument } from '@tenon/core'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { sha256 } from '../crypto.ts'
import { startApi, type Api } from '../testing/api-server.ts'
import { createHome, type Home } from '../testing/run-cli.ts'
import { createSigner, rootLink } from '../testing/signed-audit.ts'
import { serverInfo, testId } from '../testing/values.ts'

const KEY = testId('key')
let api: Api
let home: Home

beforeEach(async () => {
  home = await createHome()
  const key = createSigner()
  const bytes = signDocument('job-manifest/1', { jobId: testId('job') }, KEY, key.sign)
  const text = bytes.text.replace(/^tenon\/job-manifest\/1\n/, '')
  api = await startApi({
    'server.info': () => serverInfo({ keys: [rootLink(KEY, key)] }),
    'jobs.manifest': () => ({
      text,
      keyId: KEY,
      signature: bytes.signature,
      digest: documentDigest(text, sha256),
    }),
  })
})
afterEach(() => api.stop())

const show = () => home.run(['jobs', 'manifest', testId('job')], { env: api.env })

describe('the manifest of a job', () => {
  it('is shown after its digest and signature were checked', async () => {
    const ran = await show()
    expect(ran.code).toBe(0)
    expect(JSON.parse(ran.stdout)).toEqual({ jobId: testId('job') })
  })

  it('is refused when its text, its digest or its key is another one', async () => {
    const original = api.handlers['jobs.manifest']!
    const changed = {
      text: '{"jobId":"other"}',
      digest: documentDigest('{"jobId":"other"}', sha256),
      keyId: testId('key', 9),
    }
    for (const change of [
      { text: changed.text },
      { text: changed.text, digest: changed.digest },
      { keyId: changed.keyId },
    ]) {
      api.handlers['jobs.manifest'] = async (given) => ({ ...(await original(given)), ...change })
      expect(await show()).toMatchObject({ code: 1, stdout: '' })
    }
  })
})
