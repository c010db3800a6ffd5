import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { missingChartAgent } from '@tenon/agent/testing/chart'
import { whyNoCluster } from '@tenon/plugins/testing/kubernetes'
import { openFiveGround, type FiveGround, type Install } from './five-components.testing.ts'
import { until } from './until.ts'

const MARKER = 'marker-of-the-five-components'
const absent = whyNoCluster('helm3', 'helm4')
const noChart = missingChartAgent()

describe.skipIf(absent !== undefined)(
  `an app of five components on a real cluster${absent ? ` (${absent})` : ''}`,
  () => {
    let ground: FiveGround
    const install = ({ name }: Install) =>
      ground.server.client.call('installs.get', { params: { ref: name } })
    const stepsOf = async (id: string) => {
      const { steps } = await ground.server.client.call('runs.get', { params: { id } })
      return Object.fromEntries(steps.map((step) => [step.key, step.status]))
    }
    const lastRun = async ({ name }: Install) =>
      (await ground.server.client.call('runs.list', { query: { install: name, limit: 1 } })).items[0]!

    beforeAll(async () => {
      ground = await openFiveGround(MARKER)
    }, 300_000)
    afterAll(() => ground?.close(), 180_000)

    /** The first run, in which everything is made. */
    const provisioned = async (place: Install) => {
      await until('the provision', async () => (await lastRun(place)).finishedAt !== null, 600)
      const first = await lastRun(place)
      // It may have begun before the secret came, and then stops there and nowhere else.
      const stops = first.steps.filter((step) => step.status === 'failed')
      expect(
        stops.filter((step) => !/secret api_key/.test(step.message)).map((step) => step.message),
      ).toEqual([])
      if (stops.length > 0) await ground.tenon('deploy', place.name)
      expect((await install(place)).components.map((c) => [c.name, c.status])).toEqual(
        ['base', 'image', 'notes', 'own', 'web'].map((name) => [name, 'deployed']),
      )
      const { kubectl } = place
      expect(await kubectl('get', 'configmap', 'notes', '-o', 'jsonpath={.data.words}')).toBe(
        'hello from terraform',
      )
      expect(await kubectl('get', 'deployment', 'web', '-o', 'jsonpath={.status.readyReplicas}')).toBe('1')
      const synced = await kubectl('get', 'secret', 'synced-key', '-o', 'jsonpath={.data.value}')
      expect(Buffer.from(synced, 'base64').toString()).toBe(MARKER)
    }

    const torndown = async (place: Install) => {
      await ground.tenon('installs', 'teardown', place.name, '--yes')
      const order = (await lastRun(place)).steps
        .toSorted((a, b) => a.finishedAt!.localeCompare(b.finishedAt!))
        .map((s) => s.component)
      expect(order.indexOf('web')).toBeLessThan(order.indexOf('base'))
      expect(order.indexOf('notes')).toBeLessThan(order.indexOf('web'))
      expect(await place.kubectl('get', 'deployments,configmaps,secrets', '-o', 'name')).not.toMatch(
        /web|notes|helm|synced/,
      )
    }

    it('comes up and goes where jobs are lent a kubeconfig', async () => {
      const place = await ground.addInstall('beta', 'by kubeconfig')
      await provisioned(place)
      await torndown(place)
      expect((await install(place)).components).toEqual([])
    }, 600_000)

    it.skipIf(noChart !== undefined)(
      `provisions, plans, upgrades, survives a failing upgrade, and goes in reverse order, by an agent in the cluster${noChart ? ` (${noChart})` : ''}`,
      async () => {
        const acme = await ground.addInstall('acme', 'in the cluster')
        const { dir, tenon, write, appFiles } = ground
        const { kubectl } = acme
        await provisioned(acme)
        const used = await kubectl(
          'get',
          'deployment',
          'web',
          '-o',
          'jsonpath={.spec.template.spec.containers[0].image}',
        )
        expect(used).toMatch(/^127\.0\.0\.1:\d+\/apps\/five\/image@sha256:/)

        // The same again changes nothing, and an input changes exactly what reads it.
        await tenon('deploy', 'acme')
        expect(await stepsOf((await lastRun(acme)).id)).toMatchObject({
          'deploy:web': 'skipped',
          'deploy:base': 'skipped',
          'deploy:notes': 'skipped',
        })
        await tenon('installs', 'update', 'acme', '--input', 'greeting=good day')
        expect(Object.keys(await stepsOf((await lastRun(acme)).id)).toSorted()).toEqual([
          'deploy:base',
          'plan:base',
          'secrets',
          'sync',
          'sync:base',
        ])

        // A diff first, approved by somebody.
        await tenon('installs', 'update', 'acme', '--approval', 'prompt')
        write(appFiles('2'))
        await tenon('apps', 'sync', join(dir, 'app'))
        const { stdout } = await tenon('deploy', 'acme', 'web', '--detach')
        const id = stdout.trim()
        await until('the approval', async () => (await stepsOf(id))['approval:web'] === 'active', 300)
        expect((await tenon('runs', 'plan', id, 'web')).stdout).toMatch(/~ Deployment .*web[\s\S]*replicas/)
        await tenon('runs', 'approve', id, 'web', '--yes')
        expect(await kubectl('get', 'deployment', 'web', '-o', 'jsonpath={.status.readyReplicas}')).toBe('2')
        await tenon('installs', 'update', 'acme', '--approval', 'approve-all')

        // An upgrade that crashes is rolled back, and the reason is the cluster's.
        const broken = appFiles('2')
        broken['chart/values.yaml'] = broken['chart/values.yaml']!.replace(
          'sleep 100000',
          'echo it broke; exit 3',
        )
        write(broken)
        await tenon('builds', 'create', join(dir, 'app'), '--component', 'web')
        await expect(tenon('deploy', 'acme', 'web')).rejects.toThrow(/crash|it broke|exit/i)
        const failed = (await lastRun(acme)).steps.find((step) => step.key === 'deploy:web')!
        expect(failed.message).toMatch(/rolled back/i)
        expect(failed.message).not.toMatch(/timed out waiting/i)
        expect(await kubectl('get', 'deployment', 'web', '-o', 'jsonpath={.status.readyReplicas}')).toBe('2')

        // An action sees the secret; nobody else does.
        await tenon('actions', 'run', 'acme', 'look')
        const log = (
          await tenon('logs', (await lastRun(acme)).steps.find((step) => step.kind === 'action')!.jobId!)
        ).stdout
        expect(log).toContain('key=(sensitive)')
        // By the account of the chart, which may touch the app's namespace alone.
        expect(log).toMatch(/^no$/m)
        expect(log).toMatch(new RegExp(`Username +${acme.account}\\n`))

        await torndown(acme)
        expect((await install(acme)).components).toEqual([])
        await tenon('audit', 'verify', '--all')

        // The marker went through Terraform, Helm's values and an action, and the server has none of it.
        expect(filesWith(join(dir, 'server'), MARKER)).toEqual([])
        expect(filesWith(join(dir, 'log'), MARKER)).toEqual([])
      },
      1_200_000,
    )
  },
)

function filesWith(folder: string, text: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => {
    const file = join(folder, name)
    return statSync(file, { throwIfNoEntry: false })?.isFile() && readFileSync(file).includes(text)
  })
}
