import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { processesOf } from '../packages/dev-env/src/leftovers.ts'

const root = dirname(import.meta.dirname)
const scripts = (file: string) => import(join(root, 'scripts', file)) as Promise<Record<string, unknown>>

interface Task {
  name: string
  command: string[]
  env?: Record<string, string>
  busy?: number
}
interface Asked {
  minutes: string
  only?: string
  test?: string
  t?: string
}
const { TASKS, readAsked } = (await scripts('ci/soak-tasks.mjs')) as {
  TASKS: Task[]
  readAsked(asked: Asked): { tasks: Task[]; minutes: number } | { error: string }
}
const { soak } = (await scripts('ci/soak.mjs')) as {
  soak(asked: {
    tasks: Task[]
    minutes: number
    cwd: string
    stdio: 'ignore'
  }): Promise<{ lines: string[]; code: number }>
}
const { nodesHere, addressesIn, smoke } = (await scripts('ci/smoke.mjs')) as {
  nodesHere(toolsFolder: string, own: { version: string; program: string }): [number, string | undefined][]
  addressesIn(output: string): string[]
  smoke(asked: {
    root: string
    nodes: [number, string | undefined][]
  }): Promise<{ passed: number; failed: number; skipped: number; absent: [string, string][] }>
}

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tenon-soak-test-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }))

describe('a soak', { timeout: 60_000 }, () => {
  const task = (name: string, program: string, more: Partial<Task> = {}): Task => ({
    name,
    command: [process.execPath, '-e', program],
    env: { OF: folder },
    ...more,
  })
  const play = (minutes: number, ...tasks: Task[]) => soak({ tasks, minutes, cwd: folder, stdio: 'ignore' })

  it('does everything, one task, or one test under load, as it is asked', () => {
    expect(readAsked({ minutes: '60' })).toEqual({ minutes: 60, tasks: TASKS })
    expect(readAsked({ minutes: '1', only: 'many-jobs' })).toMatchObject({ tasks: [{ name: 'many-jobs' }] })
    expect(readAsked({ minutes: '1', test: 'a.test.ts', t: 'is late' })).toMatchObject({
      tasks: [{ command: ['npx', 'vitest', 'run', 'a.test.ts', '-t', 'is late'], busy: 2 }],
    })
  })

  it('loads the machine for the everyday suite and for the engines, and kills at all points', () => {
    const loaded = TASKS.filter(({ busy }) => busy === 2).map(({ command }) => command.join(' '))
    expect(loaded).toEqual(['npm test', 'npm run test:engines'])
    expect(TASKS.find(({ name }) => name === 'kill-points')?.env).toEqual({ TENON_KILL_POINTS: 'all' })
  })

  it.each([
    [['--only', 'kill-pionts'], 'There is no task kill-pionts. Tasks: scenarios, kill-points, many-jobs,'],
    [['--minutes', 'ten'], '--minutes takes a number above 0, not ten.'],
  ])('that is asked for what is not there does nothing and says so: %j', (args, words) => {
    const said = spawnSync(process.execPath, [join(root, 'scripts/soak.mjs'), ...args], { encoding: 'utf8' })
    expect(said).toMatchObject({ status: 2, stdout: '', stderr: expect.stringContaining(words) })
  })

  it('goes on to the next task when one fails, and fails in the end', async () => {
    const { lines, code } = await play(0.05, task('bad', 'process.exit(3)'), task('good', ''))
    expect(code).toBe(1)
    expect(lines[0]).toMatch(/^bad {2}0 passed, [1-9]\d* failed/)
    expect(lines[1]).toMatch(/^good [1-9]\d* passed, 0 failed/)
  })

  it('cuts off what is at it when the time is up, which is no failure, and leaves nothing behind', async () => {
    const { lines, code } = await play(0.02, task('long', 'setInterval(() => {}, 1000)', { busy: 1 }))
    expect([lines, code]).toEqual([['long 0 passed, 0 failed, 1 cut off by the end'], 0])
    expect(processesOf(folder)).toEqual([])
  })
})

describe('the smoke of npm start', { timeout: 120_000 }, () => {
  /** What `npm start` is there. */
  const starts = (program: string) => {
    writeFileSync(join(folder, 'package.json'), JSON.stringify({ scripts: { start: 'node start.cjs' } }))
    writeFileSync(join(folder, 'start.cjs'), program)
    return smoke({ root: folder, nodes: [[20, process.execPath]] })
  }
  const SERVES = `
    const { createServer } = require('node:http')
    const server = createServer((request, response) => response.writeHead(request.url === '/gone' ? 404 : 200).end())
    const tell = (...paths) => server.listen(Number(process.env.TENON_PORT), '127.0.0.1', () => {
      for (const path of paths) console.log('http://127.0.0.1:' + server.address().port + path)
    })`

  it('knows which versions of Node are here', () => {
    writeFileSync(join(folder, 'node26'), '')
    expect(nodesHere(folder, { version: '20.19.0', program: '/usr/bin/node' })).toEqual([
      [20, '/usr/bin/node'],
      [24, undefined],
      [26, join(folder, 'node26')],
    ])
  })

  it('finds addresses in what was printed, each once', () => {
    const printed = 'Open http://127.0.0.1:8080/a (or "http://127.0.0.1:8081")\nhttp://127.0.0.1:8080/a\n'
    expect(addressesIn(printed)).toEqual(['http://127.0.0.1:8080/a', 'http://127.0.0.1:8081'])
  })

  it('passes where two addresses answer and Ctrl-C ends all of it', async () => {
    expect(await starts(`${SERVES}; tell('/a', '/b')`)).toMatchObject({ passed: 1, failed: 0 })
  })

  it('fails where it ends before two addresses answer', async () => {
    const program = `${SERVES}; tell('/a', '/gone'); setTimeout(() => process.exit(1), 2000)`
    expect(await starts(program)).toMatchObject({ passed: 0, failed: 1 })
  })

  it('fails where a process is left after Ctrl-C, and ends that', async () => {
    const left = `require('node:child_process').spawn(
      process.execPath, ['-e', 'setInterval(() => {}, 1000)', process.env.TENON_DIR], { detached: true, stdio: 'ignore' })`
    expect(await starts(`${SERVES}; ${left}; tell('/a', '/b')`)).toMatchObject({ passed: 0, failed: 1 })
    expect(processesOf(folder)).toEqual([])
  })

  it('skips by name a version that is not here', async () => {
    const absent = [['Node 24', 'node scripts/test-tools.mjs gets it']]
    const nodes: [number, undefined][] = [[24, undefined]]
    expect(await smoke({ root: folder, nodes })).toMatchObject({ passed: 0, failed: 0, skipped: 1, absent })
  })
})
