import { execFileSync, spawnSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { processesOf } from '../packages/dev-env/src/leftovers.ts'

const root = dirname(import.meta.dirname)
const scripts = (file: string) => import(join(root, 'scripts', file)) as Promise<Record<string, unknown>>

interface Stage {
  name: string
  limit: number
  usual: number
  optional?: true
}
interface Ended {
  name: string
  outcome: string
  minutes: number
}
interface Results {
  passed: number
  failed: number
  skipped: number
  flaky: string[]
  absent?: [string, string][]
}
const { STAGES, MINUTES_IN_ALL, timeFor, summarize, passedLine } = (await scripts('ci/stages.mjs')) as {
  STAGES: Stage[]
  MINUTES_IN_ALL: number
  timeFor(stage: Stage, minutesGone: number): number | undefined
  summarize(stages: Ended[], results: Results[]): string[]
  passedLine(tree: string, stages: Ended[], results: Results[]): string
}
const { runStage } = (await scripts('ci/run-stage.mjs')) as {
  runStage(
    stage: { command: string[]; optional?: true },
    options: { cwd: string; env: NodeJS.ProcessEnv; minutes: number; stdio: 'ignore' },
  ): Promise<string>
}
const { treeOf } = (await scripts('ci/tree.mjs')) as { treeOf(root: string, index: string): string }
const { runTests } = (await scripts('run-tests.mjs')) as {
  runTests(asked: {
    root: string
    args: string[]
    env: NodeJS.ProcessEnv
    retry: boolean
    stdio: 'ignore'
  }): Promise<Results & { code: number }>
}

describe('the stages of CI', () => {
  it('fit together on two cores with the tools at hand', () => {
    expect(STAGES.reduce((sum, { usual }) => sum + usual, 0)).toBeLessThan(50)
  })

  it('get no more time than is left, and are left out when even their usual time does not fit', () => {
    const stage = { name: 'a', limit: 20, usual: 8 }
    expect(timeFor(stage, 0)).toBe(20)
    expect(timeFor(stage, MINUTES_IN_ALL - 10)).toBe(10)
    expect(timeFor(stage, MINUTES_IN_ALL - 7)).toBeUndefined()
  })

  it('end with times, what was flaky, what was left out for time, and the counts', () => {
    const stages = [
      { name: 'everyday', outcome: 'passed', minutes: 8 },
      { name: 'cluster', outcome: 'skipped', minutes: 0 },
    ]
    const results: Results[] = [
      {
        passed: 3,
        failed: 0,
        skipped: 1,
        flaky: ['a.test.ts > is late'],
        absent: [['oras', 'not installed']],
      },
      { passed: 2, failed: 0, skipped: 0, flaky: [], absent: [['oras', 'not installed']] },
    ]
    const lines = summarize(stages, results)
    expect(lines).toContain('flaky: a.test.ts > is late')
    expect(lines).toContain('skipped for time: cluster')
    expect(lines.at(-1)).toBe('5 passed, 0 failed, 1 skipped, 1 stages skipped for time')
    expect(lines).toContain('skipped here: what needs oras (not installed)')
    expect(passedLine('abc', stages, results)).toBe('abc 8 min skipped cluster, what needs oras\n')
    expect(passedLine('abc', stages.slice(0, 1), [])).toBe('abc 8 min\n')
  })
})

describe('a stage of CI', () => {
  let folder: string
  const run = (program: string, { minutes = 1, optional }: { minutes?: number; optional?: true } = {}) =>
    runStage(
      { command: [process.execPath, '-e', program], ...(optional ? { optional } : {}) },
      { cwd: folder, env: { ...process.env, OF: folder }, minutes, stdio: 'ignore' },
    )
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'tenon-ci-stage-'))
  })
  afterEach(() => rmSync(folder, { recursive: true, force: true }))

  it('passes, fails, or brings nothing where it can be done without', async () => {
    expect(await run('')).toBe('passed')
    expect(await run('process.exit(3)')).toBe('failed')
    expect(await run('process.exit(3)', { optional: true })).toBe('absent')
  })

  it('that hangs failed, and is ended by its own limit with all that it started', async () => {
    const deaf = `process.on('SIGTERM', () => {}); setInterval(() => {}, 1000)`
    const starts = `require('node:child_process').spawn(process.execPath, ['-e', ${JSON.stringify(deaf)}], { stdio: 'ignore' })
      setInterval(() => {}, 1000)`
    const running = run(starts, { minutes: 0.1, optional: true })
    await vi.waitFor(() => expect(processesOf(folder)).toHaveLength(2), { timeout: 6000 })
    expect(await running).toBe('hung')
    await vi.waitFor(() => expect(processesOf(folder)).toEqual([]))
  })
})

it('a run that passed is remembered by the tree that it tried, changes included', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tenon-ci-tree-'))
  try {
    const git = (...args: string[]) => execFileSync('git', args, { cwd: folder, encoding: 'utf8' }).trim()
    git('init', '--quiet')
    writeFileSync(join(folder, 'a'), '1')
    git('add', 'a')
    git('-c', 'user.name=a', '-c', 'user.email=a@example.test', 'commit', '--quiet', '-m', 'a')
    const index = join(folder, '.git', 'index-of-the-test')
    const committed = git('rev-parse', 'HEAD^{tree}')
    expect(treeOf(folder, index)).toBe(committed)
    writeFileSync(join(folder, 'a'), '2')
    expect(treeOf(folder, index)).not.toBe(committed)
    expect(git('diff', '--cached', '--name-only')).toBe('')
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

it('who only asks where test tools are gets none', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tenon-ci-tools-'))
  try {
    copyFileSync(join(root, 'scripts/test-tools.mjs'), join(folder, 'test-tools.mjs'))
    writeFileSync(
      join(folder, 'asks.mjs'),
      `import { toolsFolder } from './test-tools.mjs'; console.log('at', toolsFolder)`,
    )
    const tools = join(folder, 'tools')
    const env = { TENON_TEST_TOOLS: tools, PATH: '' }
    const said = spawnSync(process.execPath, [join(folder, 'asks.mjs')], { env, encoding: 'utf8' })
    expect([said.stdout, said.stderr, existsSync(tools)]).toEqual([`at ${tools}\n`, '', false])
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

describe('a test that fails in CI', { timeout: 60_000 }, () => {
  let folder: string
  const run = (retry: boolean) =>
    runTests({ root: folder, args: [], env: process.env, retry, stdio: 'ignore' })
  const write = (name: string, body: string) => {
    const imports = `import { existsSync, writeFileSync } from 'node:fs'\nimport { test, describe } from 'vitest'\n`
    writeFileSync(join(folder, name), imports + body)
  }
  /** Fails in its first process only. */
  const once = (marker: string) => {
    const file = JSON.stringify(join(folder, marker))
    return `if (!existsSync(${file})) { writeFileSync(${file}, ''); throw new Error('the first time') }`
  }

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'tenon-ci-test-'))
    mkdirSync(join(folder, 'node_modules'))
    symlinkSync(join(root, 'node_modules/.bin'), join(folder, 'node_modules/.bin'))
    symlinkSync(join(root, 'node_modules/vitest'), join(folder, 'node_modules/vitest'))
    write('good.test.ts', `test('is good', () => {})`)
  })
  afterEach(() => rmSync(folder, { recursive: true, force: true }))

  it('is tried once more, alone, and named when it passes then', async () => {
    write('late.test.ts', `describe('a (b)', () => { test('is late. Or not?', () => { ${once('late')} }) })`)
    await expect(run(true)).resolves.toEqual({
      code: 0,
      passed: 2,
      failed: 0,
      skipped: 0,
      flaky: ['late.test.ts > a (b) is late. Or not?'],
    })
  })

  it('fails the run when it fails twice, also when it broke before its tests', async () => {
    write('bad.test.ts', `test('is bad', () => { throw new Error('always') })`)
    write('broken.test.ts', `throw new Error('before its tests')`)
    await expect(run(true)).resolves.toMatchObject({ code: 1, passed: 1, failed: 2, flaky: [] })
  })

  it('is not tried again elsewhere than in CI', async () => {
    write('late.test.ts', `test('is late', () => { ${once('late')} })`)
    await expect(run(false)).resolves.toMatchObject({ code: 1, passed: 1, failed: 1, flaky: [] })
  })
})
