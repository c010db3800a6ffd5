import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync } from 'node:fs'
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
const missing = {
  process: whyNoTerraform(),
  docker: whyNoTerraform() ?? (await missingFor('docker')),
}

/** Terraform, an image, and a plugin of the vendor's own, a shell script, which uses both. */
function appFiles(image: string, words: string, provisioner = ''): Record<string, string> {
  return {
    'metadata.toml': 'version = "v1"\ndisplay_name = "same"\ndescription = "Fits everywhere."\n',
    'inputs.toml':
      '[[group]]\nname = "g"\ndisplay_name = "g"\ndescription = "g"\n[[input]]\nname = "greeting"\ngroup = "g"\ndisplay_name = "g"\ndescription = "g"\ndefault = "hello"\n',
    'components/base.toml': `name = "base"\ntype = "terraform_module"\nterraform_version = "1.11.4"\nsource = "../base"\n[vars]\nwords = "{{ .nuon.inputs.inputs.greeting }} ${words}"\n`,
    'base/main.tf': `variable "words" {}
resource "terraform_data" "it" {
  input            = var.words
  triggers_replace = ${JSON.stringify(provisioner)}
  ${provisioner === '' ? '' : `provisioner "local-exec" { command = "${provisioner}" }`}
}
output "words" { value = terraform_data.it.output }
`,
    'components/image.toml': `name = "image"\ntype = "container_image"\n[public]\nimage_url = "${image}"\ntag = "1"\n`,
    'components/own.toml':
      'name = "own"\ntype = "plugin"\nsource = "../own"\ngreeting = "{{ .nuon.components.base.outputs.words }} in {{ .nuon.components.image.outputs.image.reference }}"\n',
  }
}

describe.each(['process', 'docker'] as const)('the same app on the runtime %s', (runtime) => {
  const why = missing[runtime]
  describe.skipIf(why !== undefined)(`with real engines${why ? ` (skipped: ${why})` : ''}`, () => {
    let engine: TestEngine | undefined
    let ground: Ground
    let removePrograms: () => void = () => undefined

    const json = async <T>(...args: string[]) => JSON.parse(await ground.tenon(...args, '--json')) as T
    const lastRun = async () =>
      (await json<{ items: Run[] }>('runs', 'list', '--install', 'acme', '--limit', '1')).items[0]!
    const stepsOf = (run: Run) => Object.fromEntries(run.steps.map((step) => [step.key, step.status]))
    const install = () => json<CallOutput<'installs.get'>>('installs', 'show', 'acme')
    const outputOf = async (component: string, name: string) =>
      (await install()).components.find((each) => each.name === component)?.outputs[name]?.value
    const failing = (step: string) => async () =>
      (await lastRun()).steps.find(({ key }) => key === step)?.message ?? ''

    beforeAll(async () => {
      const built = await buildPrograms(root)
      removePrograms = built.remove
      const settings: Record<string, string> = { TENON_RUNTIME: runtime }
      if (runtime === 'docker') {
        engine = await startEngine('docker')
        const images = join(engine.dir, 'images')
        mkdirSync(images)
        settings['TENON_JOB_IMAGE'] = await engine.load(await buildTestImage(images, ['--dist', built.dist]))
        settings['TENON_DOCKER_SOCKET'] = engine.socketPath
      }
      ground = await layGround(root, built.dist, engine)
      ground.write(appFiles(ground.image, 'from one'))
      await ground.tenon('plugins', 'init', 'own', join(ground.dir, 'app', 'own'), '--shell')
      await ground.tenon('builds', 'create', join(ground.dir, 'app'))
      await ground.tenon('installs', 'create', 'acme', '--app', 'same', '--detach')
      await ground.startInstallAgent('acme', settings)
    }, 300_000)
    afterAll(async () => {
      await ground?.close()
      await engine?.close()
      removePrograms()
    }, 120_000)

    it('provisions, shows a diff first, upgrades, says why an upgrade failed, and goes in reverse', async () => {
      const first = await until(
        'the provision',
        async () => {
          const run = await lastRun()
          return run.finishedAt !== null && run
        },
        240,
      )
      expect(first.steps.map((step) => step.message).filter((text) => /fail|error/i.test(text))).toEqual([])
      expect((await install()).components.map((c) => [c.name, c.status])).toEqual(
        ['base', 'image', 'own'].map((name) => [name, 'deployed']),
      )
      expect(await outputOf('base', 'words')).toBe('hello from one')
      expect(await outputOf('own', 'message')).toMatch(/^hello from one in \S+\/apps\/same\/image@sha256:/)

      // The same again changes nothing.
      await ground.tenon('deploy', 'acme')
      expect(stepsOf(await lastRun())).toMatchObject({ 'deploy:base': 'skipped', 'deploy:image': 'skipped' })

      // A diff first, approved by somebody.
      await ground.tenon('installs', 'update', 'acme', '--approval', 'prompt')
      ground.write(appFiles(ground.image, 'from two'))
      await ground.tenon('apps', 'sync', join(ground.dir, 'app'))
      const id = (await ground.tenon('deploy', 'acme', 'base', '--detach')).trim()
      const waiting = async () => stepsOf(await json<Run>('runs', 'show', id))['approval:base'] === 'active'
      await until('the approval', waiting, 120)
      expect(await ground.tenon('runs', 'plan', id, 'base')).toMatch(
        /~ terraform_data\.it[\s\S]*hello from one[\s\S]*hello from two/,
      )
      expect(await outputOf('base', 'words')).toBe('hello from one')
      await ground.tenon('runs', 'approve', id, 'base', '--yes')
      expect(await outputOf('base', 'words')).toBe('hello from two')
      await ground.tenon('installs', 'update', 'acme', '--approval', 'approve-all')
      await ground.tenon('deploy', 'acme', 'own')
      expect(await outputOf('own', 'message')).toMatch(/^hello from two in /)

      // Terraform takes nothing back: it says so, with its own reason, and an earlier deploy can be had again.
      const good = (
        await json<{ items: { id: string; component: string; status: string }[] }>('deploys', 'list', 'acme')
      ).items.find((deploy) => deploy.component === 'base' && deploy.status === 'succeeded')!
      ground.write(appFiles(ground.image, 'from two', 'echo the disk is full; exit 3'))
      await ground.tenon('builds', 'create', join(ground.dir, 'app'), '--component', 'base')
      await expect(ground.tenon('deploy', 'acme', 'base')).rejects.toThrow(/the disk is full/)
      const said = await failing('deploy:base')()
      expect(said).toMatch(/exit status 3/)
      expect(said).toMatch(/Nothing is rolled back/)
      expect(stepsOf(await lastRun())['deploy:base']).toBe('failed')
      await ground.tenon('deploys', 'rollback', 'acme', good.id)
      expect((await install()).components.find(({ name }) => name === 'base')?.status).toBe('deployed')

      // The vendor's own script that fails is told with what it said last.
      ground.write({ 'own/operations/deploy': '#!/bin/sh\necho "no room for it" >&2\nexit 7\n' })
      await ground.tenon('builds', 'create', join(ground.dir, 'app'), '--component', 'own')
      await expect(ground.tenon('deploy', 'acme', 'own')).rejects.toThrow(/7/)
      expect(await failing('deploy:own')()).toMatch(/ended with (exit )?code 7/)

      await ground.tenon('installs', 'teardown', 'acme', '--yes')
      const order = (await lastRun()).steps
        .toSorted((a, b) => a.finishedAt!.localeCompare(b.finishedAt!))
        .map((step) => step.component)
      expect(order.indexOf('own')).toBeLessThan(order.indexOf('base'))
      expect(order.indexOf('own')).toBeLessThan(order.indexOf('image'))
      expect((await install()).components).toEqual([])
      await ground.tenon('audit', 'verify', '--all')
      await until('the last job to be removed', () => leftOf(join(ground.dir, 'agent', 'jobs')) === 0)
      expect(engine ? await containersOf(engine) : []).toEqual([])
    }, 900_000)
  })
})

function leftOf(folder: string): number {
  return existsSync(folder) ? readdirSync(folder).length : 0
}

/** By the engine's own word. */
async function containersOf({ socketPath }: TestEngine): Promise<string[]> {
  const filters = encodeURIComponent(JSON.stringify({ label: ['tenon.job'] }))
  const path = `/containers/json?all=1&filters=${filters}`
  const answer = await new Promise<IncomingMessage>((resolve, reject) =>
    get({ socketPath, path }, resolve).on('error', reject),
  )
  return (JSON.parse(await text(answer)) as { Id: string }[]).map(({ Id }) => Id)
}

function whyNoTerraform(): string | undefined {
  if (['tofu', 'terraform'].every((program) => spawnSync(program, ['version']).status !== 0))
    return 'neither tofu nor terraform is installed'
  return existsSync('/bin/busybox') ? undefined : 'no /bin/busybox, which test images are made of'
}
