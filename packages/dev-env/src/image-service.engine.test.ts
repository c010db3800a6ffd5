import { mkdirSync } from 'node:fs'
import { get, type IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { buildTestImage, missingFor, startEngine, type TestEngine } from '@tenon/agent/testing/engines'
import type { CallOutput } from '@tenon/protocol'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { buildPrograms } from './programs.ts'
import { layGround, type Ground } from './same-app-ground.ts'
import { until } from './until.ts'

type Run = CallOutput<'runs.get'>

const root = fileURLToPath(new URL('../../..', import.meta.url))
const missing = await missingFor('docker')
const SERVE = 'cd /tmp; echo $WORDS >index.html; exec /bin/busybox httpd -f -p 8000'
const CRASH = 'echo there is no room for $WORDS; exit 3'

/** The probe asks by the component's name, from the container of the job. */
function appFiles(image: string, words: string, script = SERVE): Record<string, string> {
  return {
    'metadata.toml': 'version = "v1"\ndisplay_name = "shop"\ndescription = "One service."\n',
    'components/web.toml': `name = "web"
type = "container_image"
deploy_timeout = "2m"
max_auto_retries = 0
[public]
image_url = "${image}"
tag = "1"
[basic]
replicas = 2
port = 8000
health_path = "/index.html"
command = ["/bin/sh", "-c", "${script}"]
[basic.env_vars]
WORDS = "${words}"
[health]
stabilization_window = "1s"
[[health.probes]]
name = "by name"
type = "http"
url = "http://web:8000/index.html"
`,
  }
}

describe.skipIf(missing !== undefined)(
  `an image as a service of a Docker install${missing ? ` (skipped: ${missing})` : ''}`,
  () => {
    let engine: TestEngine
    let ground: Ground
    let removePrograms: () => void = () => undefined

    const json = async <T>(...args: string[]) => JSON.parse(await ground.tenon(...args, '--json')) as T
    const lastRun = async () =>
      (await json<{ items: Run[] }>('runs', 'list', '--install', 'acme', '--limit', '1')).items[0]!
    const step = async (key: string) => (await lastRun()).steps.find((each) => each.key === key)
    const install = () => json<CallOutput<'installs.get'>>('installs', 'show', 'acme')
    const write = async (words: string, script?: string) => {
      ground.write(appFiles(ground.image, words, script))
      await ground.tenon('apps', 'sync', join(ground.dir, 'app'))
    }
    const containers = () => containersOf(engine, 'tenon.service=web')

    beforeAll(async () => {
      const built = await buildPrograms(root)
      removePrograms = built.remove
      engine = await startEngine('docker')
      const images = join(engine.dir, 'images')
      mkdirSync(images)
      const image = await engine.load(await buildTestImage(images, ['--no-tools', '--dist', built.dist]))
      ground = await layGround(root, built.dist, engine)
      ground.write(appFiles(ground.image, 'one'))
      await ground.tenon('builds', 'create', join(ground.dir, 'app'))
      await ground.tenon('installs', 'create', 'acme', '--app', 'shop', '--detach')
      await ground.startInstallAgent('acme', {
        TENON_RUNTIME: 'docker',
        TENON_JOB_IMAGE: image,
        TENON_DOCKER_SOCKET: engine.socketPath,
      })
    }, 300_000)
    afterAll(async () => {
      await ground?.close()
      await engine?.close()
      removePrograms()
    }, 120_000)

    it('runs, is skipped when nothing changes, upgrades, rolls back a crash with its reason, and goes', async () => {
      const first = await until(
        'the provision',
        async () => {
          const run = await lastRun()
          return run.finishedAt !== null && run
        },
        240,
      )
      expect(first.steps.map(({ key, status, message }) => [key, status, message])).toContainEqual([
        'deploy:web',
        'succeeded',
        '2 replicas of web run and answer as web:8000.',
      ])
      const [web] = (await install()).components
      expect(web?.outputs).toMatchObject({ host: { value: 'web' }, port: { value: 8000 } })
      const one = await containers()
      expect(one).toHaveLength(2)

      await ground.tenon('deploy', 'acme')
      expect((await step('deploy:web'))?.status).toBe('skipped')
      expect(await containers()).toEqual(one)

      await write('two')
      await ground.tenon('installs', 'update', 'acme', '--approval', 'prompt')
      const id = (await ground.tenon('deploy', 'acme', '--detach')).trim()
      await until('the approval', async () => (await step('approval:web'))?.status === 'active', 120)
      const shown = await ground.tenon('runs', 'plan', id, 'web')
      expect(shown).toMatch(/service\.web[\s\S]*env\.WORDS[\s\S]*changed/)
      expect(shown).not.toContain('two')
      await ground.tenon('runs', 'approve', id, 'web', '--yes')
      await ground.tenon('installs', 'update', 'acme', '--approval', 'approve-all')
      const two = await containers()
      expect(two).toHaveLength(2)
      expect(two.filter((container) => one.includes(container))).toEqual([])

      await write('three', CRASH)
      await expect(ground.tenon('deploy', 'acme')).rejects.toThrow(/there is no room for three/)
      const said = (await step('deploy:web'))?.message
      expect(said).toMatch(/rolled back; what ran before still runs/)
      expect(said).toMatch(/crashed \d+ times, last with exit code 3/)
      expect(await containers()).toEqual(two)

      // What was taken away by hand is a change that the next plan finds, and the deploy mends.
      await write('two')
      await removeContainer(engine, two[0]!)
      await ground.tenon('deploy', 'acme')
      expect(await step('deploy:web')).toMatchObject({ status: 'succeeded' })
      const mended = await containers()
      expect(mended).toHaveLength(2)
      expect(mended).not.toContain(two[1])

      await ground.tenon('installs', 'teardown', 'acme', '--yes')
      expect(await containers()).toEqual([])
      expect(await networksOf(engine)).toEqual(['bridge', 'host', 'none'])
      await ground.tenon('audit', 'verify', '--all')
    }, 900_000)
  },
)

async function containersOf(engine: TestEngine, label: string): Promise<string[]> {
  const filters = encodeURIComponent(JSON.stringify({ label: [label] }))
  const all = (await ask(engine, `/containers/json?all=1&filters=${filters}`)) as { Id: string }[]
  return all.map(({ Id }) => Id).toSorted()
}

async function networksOf(engine: TestEngine): Promise<string[]> {
  return ((await ask(engine, '/networks')) as { Name: string }[]).map(({ Name }) => Name).toSorted()
}

async function removeContainer(engine: TestEngine, id: string): Promise<void> {
  await ask(engine, `/containers/${id}?force=true`, 'DELETE')
}

/** By the engine's own word. */
async function ask({ socketPath }: TestEngine, path: string, method = 'GET'): Promise<unknown> {
  const answer = await new Promise<IncomingMessage>((resolve, reject) =>
    get({ socketPath, path, method }, resolve).on('error', reject),
  )
  const said = await text(answer)
  return said === '' ? undefined : JSON.parse(said)
}
