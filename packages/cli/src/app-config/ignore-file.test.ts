import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { temporaryFolder } from '../testing/run-cli.ts'
import { readIgnore } from './ignore-file.ts'

async function ignoredBy(text: string | undefined): Promise<(path: string) => boolean> {
  const folder = await temporaryFolder()
  if (text !== undefined) await writeFile(join(folder, '.tenonignore'), text)
  return readIgnore(folder)
}

describe('what is left out of a source', () => {
  it('is history and a local server’s data, even without a file that says so', async () => {
    const ignored = await ignoredBy(undefined)
    expect(['.git', 'lib/.git', '.tenon', 'web', '.gitignore'].map(ignored)).toEqual([
      true,
      true,
      true,
      false,
      false,
    ])
  })

  it.each([
    ['node_modules/', ['node_modules', 'a/node_modules'], ['node_modules2']],
    ['*.log', ['x.log', 'a/x.log'], ['x.log.txt']],
    ['/dist', ['dist'], ['a/dist']],
    ['docs/*.md', ['docs/a.md'], ['docs/b/a.md', 'x/docs/a.md']],
    ['docs/**/a.md', ['docs/a.md', 'docs/b/c/a.md'], ['docs/b.md']],
    ['a+b?.txt', ['a+bc.txt'], ['aabc.txt']],
    ['# comment', [], ['# comment', 'comment']],
  ])('is what %j names', async (line, inside, outside) => {
    const ignored = await ignoredBy(`${line}\r\n\n`)
    expect(inside.filter((path) => !ignored(path))).toEqual([])
    expect(outside.filter(ignored)).toEqual([])
  })
})
