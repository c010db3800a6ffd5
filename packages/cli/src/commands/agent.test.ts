import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { createHome, temporaryFolder } from '../testing/run-cli.ts'

/** An agent program that ends with 45 when it is called like this. */
async function agentThatExpects(args: string): Promise<string> {
  const dist = join(await temporaryFolder(), 'dist')
  await mkdir(dist)
  const text = `process.exit(process.argv.slice(2).join(' ') === ${JSON.stringify(args)} ? 45 : 9)`
  await writeFile(join(dist, 'agent.mjs'), text)
  return dist
}

describe('what an agent does for its owner', () => {
  it.each([
    ['status --dir x', 'status --dir x'],
    ['secret set key --json --dir x', 'secret set key --dir x --json'],
    ['export --dir x --to a --to b', 'export --dir x --to a --to b'],
    ['jobs stop job_1 --dir x', 'jobs stop job_1 --dir x'],
  ])('is asked of its own program: %s', async (typed, passed) => {
    const home = await createHome()
    const ran = await home.run(['agent', ...typed.split(' ')], { dist: await agentThatExpects(passed) })
    expect(ran.code).toBe(45)
  })
})
