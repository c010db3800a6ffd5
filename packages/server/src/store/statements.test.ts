import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startTestTenant, type TestTenant } from '../testing/test-server.ts'
import { builtApp, component, ended, installAgent, newInstall, workAll } from '../testing/world.ts'
import { namedStatements } from './statements.ts'

const SOURCES = join(import.meta.dirname, '..')

let tenant: TestTenant
beforeAll(async () => {
  tenant = await startTestTenant()
})
afterAll(() => tenant.stop())

it('the server writes lists as `= any(…)`, so that their length makes no text of its own', () => {
  const found = sources().flatMap((file) =>
    [...readFileSync(join(SOURCES, file), 'utf8').matchAll(LIST)].map(([text]) => `${file}: ${text}`),
  )
  expect(found).toEqual([])
})

it('apps of any size are built, deployed, shown and listed with the same statements', async () => {
  await allOf('warm', 2)
  await allOf('warmer', 3)
  const before = namedStatements()
  const sizes = [4, 5, 6, 7, 8, 9]
  for (const size of sizes) await allOf(`size-${size}`, size)
  // A text per length would be one more for each size; what a loop of the server asks for the first time comes once.
  expect(namedStatements() - before).toBeLessThan(sizes.length)
})

/** An operator of Kysely with a list, or raw SQL with one in it; a subselect has no length, nor has a constant. */
const LIST = /'(not )?in',\s*(?!\s|\(eb\) =>)[^\n]*|\bin \(\$\{(?![A-Z])[^\n]*/g

function sources(): string[] {
  return readdirSync(SOURCES, { recursive: true, encoding: 'utf8' }).filter(
    (file) => file.endsWith('.ts') && !file.endsWith('.test.ts') && !/(testing|postgres)\//.test(file),
  )
}

async function allOf(app: string, size: number): Promise<void> {
  const { client } = tenant
  const components = Array.from({ length: size }, (_, n) => component(`part-${n}`))
  await builtApp(tenant, app, components)
  const stop = new AbortController()
  const { run } = await newInstall(client, `at-${app}`, app)
  const agent = await installAgent(tenant, `at-${app}`)
  const working = workAll(agent, undefined, stop.signal)
  await ended(client, run.id)
  await client.call('runs.list', { query: { limit: size } })
  await client.call('jobs.list', { query: { limit: size } })
  stop.abort()
  await working
}
