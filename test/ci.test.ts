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
  making?: number
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
  outside?: string[]
  absent?: [string, string][]
}
const { STAGES, GOAL, MINUTES_IN_ALL, timeFor, summarize, passedLine } = (await scripts('ci/stages.mjs')) as {
  STAGES: Stage[]
  GOAL: { cached: number; made: number }
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
    until?: number
    stdio: 'ignore'
  }): Promise<Results & { code: number }>
}

describe('the stages of CI', () => {
  it('fit into 40 minutes on two cores with the tools in their caches, and into 75 with none', () => {
    expect(GOAL).toEqual({ cached: 40, made: 75 })
    expect(STAGES.reduce((sum, { usual }) => sum + usual, 0)).toBeLessThanOrEqual(GOAL.cached)
    const making = STAGES.reduce((sum, stage) => sum + (stage.making ?? stage.usual), 0)
    expect(making).toBeLessThanOrEqual(GOAL.made)
    expect(MINUTES_IN_ALL).toBeLessThan(90)
  })

  it('that took longer together than they should say so, and more is due where tools had to be made', () => {
    const told = (...stages: [string, number][]) =>
      summarize(
        stages.map(([name, minutes]) => ({ name, outcome: 'passed', minutes })),
        [],
      ).filter((line) => line.startsWith('slower'))
    expect(told(['test tools', 0.1], ['everyday tests', 39.8])).toEqual([])
    const slow = 'slower than it should be: 41 minutes (goal 40)'
    expect(told(['test tools', 0.1], ['everyday tests', 40.1])).toEqual([slow])
    expect(told(['test tools', 6], ['everyday tests', 60])).toEqual([])
    const slower = 'slower than it should be: 78 minutes (goal 75)'
    expect(told(['Kubernetes', 6], ['everyday tests', 72])).toEqual([slower])
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
        outside: ['Error: too late'],
        absent: [['oras', 'not installed']],
      },
      { passed: 2, failed: 0, skipped: 0, flaky: [], absent: [['oras', 'not installed']] },
    ]
    const lines = summarize(stages, results)
    expect(lines).toContain('flaky: a.test.ts > is late')
    expect(lines).toContain('outside of every test: Error: too late')
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

  it('learns when it would be taken for hanging', async () => {
    const late = `process.exit(Number(process.env.TENON_STAGE_ENDS) - Date.now() > 100_000 ? 0 : 1)`
    expect(await run(late, { minutes: 2 })).toBe('passed')
    expect(await run(late, { minutes: 1 })).toBe('failed')
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
  const run = (retry: boolean, until = Infinity) =>
    runTests({ root: folder, args: [], env: process.env, retry, until, stdio: 'ignore' })
  const write = (name: string, body: string) => {
    const imports = `import { existsSync, writeFileSync } from 'node:fs'\nimport { test, describe, beforeAll } from 'vitest'\n`
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
      outside: [],
      absent: [],
    })
  })

  it('fails the run when it fails twice, also when it broke before its tests', async () => {
    write('bad.test.ts', `test('is bad', () => { throw new Error('always') })`)
    write('broken.test.ts', `throw new Error('before its tests')`)
    await expect(run(true)).resolves.toMatchObject({ code: 1, passed: 1, failed: 2, flaky: [] })
  })

  it('fails the run whatever a second try gives when something failed outside of every test', async () => {
    write('late.test.ts', `test('is late', () => { ${once('late')} })`)
    write(
      'leaks.test.ts',
      `test('leaks', async () => {
        Promise.reject(new Error('nobody hears this'))
        await new Promise((done) => setImmediate(done))
      })`,
    )
    await expect(run(true)).resolves.toMatchObject({
      code: 1,
      flaky: ['late.test.ts > is late'],
      outside: ['Error: nobody hears this'],
    })
  })

  it('is tried with its whole file where a hook failed too, since tests behind that did not run', async () => {
    write(
      'hook.test.ts',
      `test('is late', () => { ${once('late')} })
      describe('behind a hook', () => {
        beforeAll(() => { throw new Error('always') })
        test('does not run', () => {})
      })`,
    )
    await expect(run(true)).resolves.toMatchObject({ code: 1, failed: 1, flaky: [] })
  })

  it('is tried once more however many they are, as far as its stage has time', async () => {
    const all = Array.from(
      { length: 9 },
      (_, index) => `test('${index} is late', () => { ${once(`${index}`)} })`,
    )
    write('late.test.ts', all.join('\n'))
    const late = await run(true, Date.now() + 30_000)
    expect(late).toMatchObject({ code: 1, failed: 9, flaky: [] })
    for (let index = 0; index < 9; index++) rmSync(join(folder, `${index}`))
    const inTime = await run(true, Date.now() + 600_000)
    expect(inTime).toMatchObject({ code: 0, failed: 0 })
    expect(inTime.flaky).toHaveLength(9)
  })

  it('that was skipped for what is absent is told with that: a commit that a shallow clone lacks', async () => {
    execFileSync('git', ['init', '--quiet'], { cwd: folder })
    const commit = '0123456789'.repeat(4)
    write(
      'versions.test.ts',
      `import { whyAbsent } from ${JSON.stringify(join(root, 'test/skew/earlier.ts'))}
      test.skipIf(whyAbsent(${JSON.stringify(folder)}, '${commit}'))('with an earlier version', () => {})`,
    )
    const results = await run(true)
    expect(results).toMatchObject({
      code: 0,
      skipped: 1,
      absent: [['commit 0123456', 'not in this clone: git fetch --unshallow']],
    })
    const stages = [{ name: 'versions together', outcome: 'passed', minutes: 4 }]
    expect(passedLine('abc', stages, [results])).toBe('abc 4 min skipped what needs commit 0123456\n')
  })

  it('is not tried again elsewhere than in CI', async () => {
    write('late.test.ts', `test('is late', () => { ${once('late')} })`)
    await expect(run(false)).resolves.toMatchObject({ code: 1, passed: 1, failed: 1, flaky: [] })
  })
})
