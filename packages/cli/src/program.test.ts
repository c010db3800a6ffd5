import type { Command } from '@commander-js/extra-typings'
import { spawn } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, vi } from 'vitest'
import { createCli } from './cli.ts'
import { EXIT } from './exit-codes.ts'
import { systemClock, type Io } from './io.ts'
import { createProgram } from './program.ts'
import { createHome, temporaryFolder } from './testing/run-cli.ts'

function everyCommand(at: Command): Command[] {
  return [at, ...at.commands.flatMap((child) => everyCommand(child as unknown as Command))]
}

function program(): Command {
  const io: Io = {
    stdin: new PassThrough(),
    stdout: new PassThrough(),
    stderr: new PassThrough(),
    env: {},
    cwd: '/',
    fetch,
    clock: systemClock,
    host: { node: process.execPath, nodeVersion: '20.19.0', platform: 'linux', home: '/', dist: '/' },
    onSignal: () => () => undefined,
  }
  return createProgram(createCli(io, new AbortController().signal))
}

function pathOf(command: Command): string[] {
  const parent = command.parent as Command | null
  return parent ? [...pathOf(parent), command.name()] : []
}

describe('help', () => {
  it.each(everyCommand(program()).map((command) => [pathOf(command)]))(
    'of %j has a description and examples',
    async (path) => {
      const home = await createHome()
      const ran = await home.run([...path, '--help'])
      expect(ran).toMatchObject({ code: 0, stderr: '' })
      expect(ran.stdout).toMatch(/^Usage: tenon[^\n]*\n\n\w/)
      expect(ran.stdout).toContain('\nExamples:\n  $ ')
      expect((await home.run(['help', ...path])).stdout).toBe(ran.stdout)
    },
  )

  it('lists every exit code', async () => {
    const home = await createHome()
    const { stdout } = await home.run(['help', 'exit-codes'])
    for (const code of Object.values(EXIT)) expect(stdout).toMatch(new RegExp(`^ +${code} {2}\\w`, 'm'))
  })
})

describe('advice', () => {
  const ROOT = fileURLToPath(new URL('../../..', import.meta.url))
  const filesIn = (folder: string, ending: string) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith(ending) && !/node_modules|\.test\.|testing/.test(file))
      .map((file) => join(folder, file))

  it('names commands that there are', () => {
    const root = program()
    const wrong = [...filesIn('packages', '.ts'), ...filesIn('docs', '.md'), 'README.md'].flatMap((file) => {
      const named = readFileSync(join(ROOT, file), 'utf8').matchAll(/(?:`|\$ )tenon((?: [a-z][a-z-]*)+)/g)
      return Array.from(named, ([, words = '']) => words.trim())
        .filter((words) => !isCommand(root, words.split(' ')))
        .map((words) => `${file}: tenon ${words}`)
    })
    expect(wrong).toEqual([])
  })

  /** What follows a command that has no commands of its own, or takes words itself, are its arguments. */
  function isCommand(at: Command, [word, ...rest]: string[]): boolean {
    const next = at.commands.find((each) => each.name() === word) as Command | undefined
    if (next) return isCommand(next, rest)
    return word === undefined || at.commands.length === 0 || at.registeredArguments.length > 0
  }
})

describe('the server and the agent', () => {
  async function distWith(name: string, text: string): Promise<string> {
    const dist = join(await temporaryFolder(), 'dist')
    await mkdir(dist)
    await writeFile(join(dist, `${name}.mjs`), text)
    return dist
  }

  it('are started with their own arguments, and their exit code is passed on', async () => {
    const home = await createHome()
    const server = await distWith(
      'server',
      'process.exit(process.argv.slice(2).join() === "--port,1" ? 42 : 9)',
    )
    expect((await home.run(['server', 'start', '--port', '1'], { dist: server })).code).toBe(42)
    const agent = await distWith(
      'agent',
      'process.exit(process.argv.slice(2).join() === "enrol,--token-file,x" ? 43 : 9)',
    )
    expect((await home.run(['agent', 'enrol', '--token-file', 'x'], { dist: agent })).code).toBe(43)
  })

  it('get the signals that tenon gets', async () => {
    const home = await createHome()
    const ready = join(home.home, 'ready')
    const dist = await distWith(
      'server',
      `import { writeFileSync } from 'node:fs'; process.on('SIGINT', () => process.exit(44)); setInterval(() => {}, 1000); writeFileSync(${JSON.stringify(ready)}, '')`,
    )
    const ran = home.run(['server'], { dist })
    const { existsSync } = await import('node:fs')
    await vi.waitUntil(() => existsSync(ready), { timeout: 10_000 })
    home.interrupt()
    expect((await ran).code).toBe(44)
  })

  it('say how to build them when they are absent', async () => {
    const home = await createHome()
    expect(await home.run(['server'])).toMatchObject({
      code: 7,
      stderr: expect.stringContaining('npm run build'),
    })
  })
})

describe('a pipe that nobody reads any more', () => {
  it.each([
    ['cli', '--help', 0],
    ['cli', 'help exit-codes', 0],
    ['cli', 'schema component', 0],
    ['agent', 'keygen --help', 0],
    ['agent', 'status --help', 0],
  ])('lets %s %s end without a word', async (program, words, expected) => {
    const bundle = fileURLToPath(new URL(`../../../dist/${program}.mjs`, import.meta.url))
    const child = spawn(process.execPath, [bundle, ...words.split(' ')], {
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    child.stdout.destroy()
    let text = ''
    child.stderr.on('data', (chunk: Buffer) => (text += chunk.toString()))
    const code = await new Promise((resolve) => child.once('close', resolve))
    expect({ code, text }).toEqual({ code: expected, text: '' })
  })
})

describe('the program that npm links', () => {
  it('starts the bundle, or says how to build it', async () => {
    const shim = fileURLToPath(new URL('../bin/tenon.mjs', import.meta.url))
    const child = spawn(process.execPath, [shim, '--version'], { stdio: ['ignore', 'pipe', 'pipe'] })
    let text = ''
    child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()))
    child.stderr.on('data', (chunk: Buffer) => (text += chunk.toString()))
    await new Promise((resolve) => child.once('close', resolve))
    expect(text).toMatch(/^\d+\.\d+\.\d+\n$|npm run build/)
  })
})
