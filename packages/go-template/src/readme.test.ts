import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { build } from 'esbuild'
import { describe, expect, it } from 'vitest'
import { ALL_FUNCTIONS } from './index.ts'

const README = readFileSync(new URL('../README.md', import.meta.url), 'utf8')
const EXAMPLES = [...README.matchAll(/```ts\n(.*?)```\n\n```text\n(.*?)```/gs)].map(
  ([, code = '', output = '']) => ({
    title: README.slice(0, README.indexOf(code))
      .match(/^#+ .*$/gm)
      ?.at(-1),
    code,
    output,
  }),
)

/** What the example prints, run as a program of its own that has the package by its name. */
async function printed(code: string): Promise<string> {
  const bundled = await build({
    stdin: { contents: code, loader: 'ts', resolveDir: import.meta.dirname },
    bundle: true,
    format: 'esm',
    write: false,
  })
  const input = bundled.outputFiles[0]?.text ?? ''
  return execFileSync(process.execPath, ['--input-type=module', '-'], { input, encoding: 'utf8' })
}

const named = (text: string | undefined): string[] =>
  [...(text ?? '').matchAll(/`(\w+)`/g)].map(([, name = '']) => name)

describe('the README', () => {
  it('has no code that is not an example with its output', () => {
    expect(README.match(/^```/gm)).toHaveLength(EXAMPLES.length * 4)
    expect(EXAMPLES.length).toBeGreaterThan(5)
  })

  it.each(EXAMPLES)('shows what really happens: $title', async ({ code, output }) => {
    expect((await printed(code)).trimEnd()).toBe(output.trimEnd())
  })

  it('names every function there is, once, and none that is left out', () => {
    const [, covered, left] = /^\| of \| are \|\n(.*?)\n\n(\*\*Left out\*\*.*?)\n/ms.exec(README) ?? []
    expect(named(covered).toSorted()).toEqual(Object.keys(ALL_FUNCTIONS).toSorted())
    expect(named(left).length).toBeGreaterThan(30)
    expect(named(left).filter((name) => Object.hasOwn(ALL_FUNCTIONS, name))).toEqual([])
  })
})
