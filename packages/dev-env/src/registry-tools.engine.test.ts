import { missingFor } from '@tenon/agent/testing/engines'
import { startDockerd, type TestDockerd } from '@tenon/plugins/testing/dockerd'
import { spawnSync } from 'node:child_process'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openToolGround, type ToolGround } from './registry-tools.testing.ts'

const hasClient = spawnSync('docker', ['--version'], { timeout: 60_000 }).status === 0
const missing = (await missingFor('docker')) ?? (hasClient ? undefined : 'docker is not installed')

describe.skipIf(missing !== undefined)(`docker${missing ? ` (skipped: ${missing})` : ''}`, () => {
  let ground: ToolGround
  let engine: TestDockerd

  beforeAll(async () => {
    ground = await openToolGround()
    engine = await startDockerd('shared')
  }, 240_000)
  afterAll(async () => {
    await engine?.close()
    await ground?.close()
  }, 90_000)

  it('pulls an image that was built once `tenon registry login` signed it in, and not after logout', async () => {
    const anna = await ground.person('docker')
    const docker = (...args: string[]) => anna.tool('docker', '--host', engine.address, ...args)
    const { repository, digest } = ground.artifacts.get('web')!
    const image = `${new URL(ground.server.url).host}/${repository}`
    await expect(docker('pull', `${image}:v1`)).rejects.toThrow(/unauthorized|denied|no basic auth/i)

    await anna.tenon('registry', 'login', '--tool', 'docker')
    expect(await docker('pull', `${image}:v1`)).toContain(digest)
    const inspected = await docker('image', 'inspect', `${image}:v1`)
    expect(JSON.parse(inspected)).toMatchObject([{ RepoDigests: [`${image}@${digest}`] }])

    await docker('image', 'rm', `${image}:v1`)
    await anna.tenon('registry', 'logout')
    await expect(docker('pull', `${image}@${digest}`)).rejects.toThrow(/unauthorized|denied|no basic auth/i)
  })
})
