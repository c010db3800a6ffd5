import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, it } from 'vitest'

const root = dirname(import.meta.dirname)
const PAGES = [
  'ARCHITECTURE.md',
  'README.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  ...readdirSync(join(root, 'docs'))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
]

/** Links into the repository, and paths of sources in code marks: `package/src/…` or from the root. */
function pathsIn(page: string, text: string): string[] {
  const links = [...text.matchAll(/\]\((?!https?:|#|mailto:)([^)#\s]+)/g)].map(([, path]) =>
    join(dirname(page), path!),
  )
  const marks = [...text.matchAll(/`((?:packages\/)?[\w-]+\/src\/[\w./-]+)`/g)].map(([, path]) =>
    path!.startsWith('packages/') ? path! : `packages/${path}`,
  )
  return [...links, ...marks]
}

it.each(PAGES)('%s names only files that are there', (page) => {
  const missing = pathsIn(page, readFileSync(join(root, page), 'utf8')).filter(
    (path) => !existsSync(join(root, path)),
  )
  expect(missing).toEqual([])
})

it('a path that leads nowhere is found', () => {
  expect(
    pathsIn('docs/a.md', 'see [x](../ARCHITECTURE.md#y), [z](https://a.b) and `core/src/nothing.ts`'),
  ).toEqual(['ARCHITECTURE.md', 'packages/core/src/nothing.ts'])
})
