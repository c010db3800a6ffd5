import { readdirSync, readFileSync } from 'node:fs'
import { builtinModules } from 'node:module'
import { dirname, join, relative, resolve, sep } from 'node:path'
import { describe, expect, it } from 'vitest'
import { lineAt, scanSource } from './source-scan.ts'

const root = dirname(import.meta.dirname)

interface Rule {
  mayImport: readonly string[]
  /** Names of a package that stay forbidden though the package may be imported. */
  except?: Readonly<Record<string, readonly string[]>>
  /** No I/O, no clock, no randomness. Its tests are free of this: they need real hashes and keys. */
  pure?: true
}

/** The table of DESIGN §3. A new package gets its line here first. */
const TABLE: Readonly<Record<string, Rule>> = {
  'go-template': { mayImport: [], pure: true },
  core: { mayImport: ['go-template'], pure: true },
  protocol: { mayImport: ['core'] },
  oci: { mayImport: [] },
  server: {
    mayImport: ['core', 'protocol', 'oci'],
    // The server serves a registry; it never connects to one.
    except: { oci: ['createRegistryClient', 'copyArtifact', 'pullArtifactLayers', 'pushArtifact'] },
  },
  agent: { mayImport: ['core', 'protocol'] },
  plugins: { mayImport: ['core', 'protocol', 'oci'] },
  'local-host': { mayImport: ['core', 'protocol'] },
  cli: { mayImport: ['core', 'protocol', 'oci'] },
  dashboard: { mayImport: ['core', 'protocol'] },
  'dev-env': { mayImport: ['core', 'protocol', 'oci', 'server', 'agent', 'plugins', 'local-host', 'cli'] },
}

/** Tests alone may reach these folders of the root, to build the real programs they start. */
const FOR_TESTS = ['scripts', 'test', 'examples']

const IMPURE: readonly [RegExp, string][] = [
  [/\bDate\.now\b/g, 'Date.now'],
  [/\bnew Date\s*(?:\(\s*\)|(?![\w\s(]))/g, 'new Date() without an argument'],
  [/(?<!new )\bDate\s*\(/g, 'Date()'],
  [/\bperformance\.now\b/g, 'performance.now'],
  [/\bMath\.random\b/g, 'Math.random'],
  [/\bcrypto\.\w/g, 'crypto'],
  [/(?<![.\w])(?:globalThis\.)?process\s*(?:\.|\[|\?\.)/g, 'process'],
  [/(?<![.\w])fetch\s*\(/g, 'fetch'],
  [/(?<![.\w])set(?:Timeout|Interval|Immediate)\s*\(/g, 'timers'],
  [/(?<![.\w])console\s*\./g, 'console'],
]

/** Every breach in one file, as `file:line: rule`. */
function breachesIn(file: string, source: string, table = TABLE): string[] {
  const [, name = ''] = file.split('/')
  const rule = table[name]
  if (!rule) return [`${file}:1: packages/${name} is not in the table of test/boundaries.test.ts`]
  const isTest = file.endsWith('.test.ts') || file.endsWith('.test.tsx')
  const scanned = scanSource(source)
  const found = scanned.imports.flatMap(({ specifier, line, names }) => {
    const problem = importProblem({ file, name, rule, isTest, specifier, names })
    return problem ? [`${file}:${line}: ${problem}`] : []
  })
  if (!rule.pure || isTest) return found
  const impure = IMPURE.flatMap(([pattern, what]) =>
    [...scanned.code.matchAll(pattern)].map(
      (match) => `${file}:${lineAt(source, match.index)}: ${name} may not use ${what}: pass it in`,
    ),
  )
  return [...found, ...impure]
}

interface Import {
  file: string
  name: string
  rule: Rule
  isTest: boolean
  specifier: string
  names: string[]
}

function importProblem({ file, name, rule, isTest, specifier, names }: Import): string | undefined {
  if (specifier.startsWith('.') || specifier.startsWith('/')) {
    const target = relative(root, resolve(root, dirname(file), specifier)).split(sep)
    if (target[0] === 'packages' && target[1] === name) return undefined
    if (isTest && FOR_TESTS.includes(target[0] ?? '')) return undefined
    return `${target.slice(0, 2).join('/')} is reached past its package: import it by its name, if ${name} may`
  }
  const ours = /^@tenon\/([^/]+)(\/.*)?$/.exec(specifier)
  if (ours) {
    const [, other = '', deep] = ours
    if (!rule.mayImport.includes(other)) {
      return `${name} may not import ${other} (it may import ${rule.mayImport.join(', ') || 'none of ours'})`
    }
    if (deep && !exportsOf(other).includes(`.${deep}`))
      return `${specifier} is the inside of ${other}: import what it exports`
    const forbidden = names.find((imported) => rule.except?.[other]?.includes(imported))
    return forbidden && `${name} may not import ${forbidden} of ${other}`
  }
  const builtin = specifier.startsWith('node:') || builtinModules.includes(specifier)
  return builtin && rule.pure && !isTest ? `${name} may not import ${specifier}: it is pure` : undefined
}

function sourceFiles(): string[] {
  return readdirSync(join(root, 'packages')).flatMap((name) => {
    const src = join(root, 'packages', name, 'src')
    return readdirSync(src, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && /\.[cm]?[jt]sx?$/.test(entry.name))
      .map((entry) => relative(root, join(entry.parentPath, entry.name)).split(sep).join('/'))
  })
}

/** What a package lets others import, besides its name alone. */
function exportsOf(name: string): string[] {
  const { exports } = JSON.parse(readFileSync(join(root, 'packages', name, 'package.json'), 'utf8')) as {
    exports: Record<string, string>
  }
  return Object.keys(exports)
}

describe('the boundaries between packages', () => {
  const files = sourceFiles()

  it('are kept by every source file', () => {
    expect(files.length).toBeGreaterThan(50)
    const breaches = files.flatMap((file) => breachesIn(file, readFileSync(join(root, file), 'utf8')))
    expect(breaches).toEqual([])
  })

  it('are kept by what each package.json depends on', () => {
    const breaches = readdirSync(join(root, 'packages')).flatMap((name) => {
      const text = readFileSync(join(root, 'packages', name, 'package.json'), 'utf8')
      const { dependencies = {} } = JSON.parse(text) as { dependencies?: Record<string, string> }
      const ours = Object.keys(dependencies).filter((dependency) => dependency.startsWith('@tenon/'))
      return ours
        .filter((dependency) => !TABLE[name]?.mayImport.includes(dependency.slice('@tenon/'.length)))
        .map((dependency) => `packages/${name}/package.json: ${name} may not depend on ${dependency}`)
    })
    expect(breaches).toEqual([])
  })

  it('let nobody import dev-env, e2e or bench', () => {
    for (const { mayImport } of Object.values(TABLE)) {
      for (const end of ['dev-env', 'e2e', 'bench']) expect(mayImport).not.toContain(end)
    }
  })
})

describe('a breach is found and named with its line', () => {
  const breach = (file: string, source: string) => breachesIn(`packages/${file}`, source).join('\n')

  it.each([
    ["import { x } from '@tenon/server'", 'agent may not import server'],
    ["import type { X } from '@tenon/oci'", 'agent may not import oci'],
    ["import '@tenon/plugins'", 'agent may not import plugins'],
    ["export * from '@tenon/dev-env'", 'agent may not import dev-env'],
    ["const x = await import('@tenon/server')", 'agent may not import server'],
    ["type X = import('@tenon/server').X", 'agent may not import server'],
    ["const x = require('@tenon/server')", 'agent may not import server'],
    ["import {\n  a,\n  b,\n} from '@tenon/cli'", 'agent may not import cli'],
    ["import { x } from '@tenon/core/src/plan.ts'", 'is the inside of core'],
    ["import { x } from '../../core/src/plan.ts'", 'packages/core is reached past its package'],
    ["import { x } from '../../../scripts/build.mjs'", 'is reached past its package'],
    ["const t = `${await import('@tenon/server')}`", 'agent may not import server'],
    ["const r = /['\"`]/\nimport { x } from '@tenon/server'", 'agent.ts:2: agent may not import server'],
  ])('%j', (source, problem) => {
    expect(breach('agent/src/agent.ts', source)).toContain(problem)
  })

  it.each([
    ["import { readFile } from 'node:fs'", 'core may not import node:fs'],
    ["import { readFile } from 'fs'", 'core may not import fs'],
    ['const at = 1\nconst now = Date.now()', 'a.ts:2: core may not use Date.now'],
    ['const now = new Date()', 'core may not use new Date() without an argument'],
    ['const now = new Date', 'core may not use new Date() without an argument'],
    ['const r = Math.random()', 'core may not use Math.random'],
    ['const e = process.env.HOME', 'core may not use process'],
    ['await fetch(url)', 'core may not use fetch'],
    ['const t = `at ${Date.now()}`', 'core may not use Date.now'],
  ])('%j', (source, problem) => {
    expect(breach('core/src/a.ts', source)).toContain(problem)
  })

  it('also in what a test imports, and in a package that is not in the table', () => {
    expect(breach('cli/src/a.test.ts', "import '@tenon/server'")).toContain('cli may not import server')
    expect(breach('cli/src/a.ts', "import '@tenon/go-template'")).toContain('cli may not import go-template')
    expect(breach('go-template/src/a.ts', "import '@tenon/core'")).toContain('it may import none of ours')
    expect(breach('go-template/src/a.ts', 'Date.now()')).toContain('go-template may not use Date.now')
    expect(breach('cli/src/a.test.ts', "import '../../server/src/main.ts'")).toContain('reached past')
    expect(breach('new/src/a.ts', '')).toContain('packages/new is not in the table')
    expect(
      breach('server/src/a.ts', "import { type Digest, copyArtifact as c } from '@tenon/oci'"),
    ).toContain('server may not import copyArtifact of oci')
  })

  it.each([
    ['core/src/a.ts', 'const day = new Date(ms)\nconst parsed = Date.parse(text)'],
    [
      'core/src/a.ts',
      "// Date.now() and import '@tenon/server'\n/* process.env */ const t = 'Math.random()'",
    ],
    ['core/src/a.ts', 'const t = `the process. fetch (it)` + job.process.pid'],
    ['core/src/a.test.ts', "import { createHash } from 'node:crypto'\nconst now = Date.now()"],
    ['agent/src/a.test.ts', "import { bundle } from '../../../scripts/build.mjs'"],
    ['agent/src/a/b.ts', "import { x } from '../c.ts'\nimport { y } from '@tenon/core'\nimport 'node:fs'"],
    ['server/src/a.ts', "import { createRegistryHandler } from '@tenon/oci'"],
    ['agent/src/a.ts', 'const half = a / b / c // import "@tenon/server"'],
  ])('and nothing is said of %s with %j', (file, source) => {
    expect(breach(file, source)).toBe('')
  })
})
