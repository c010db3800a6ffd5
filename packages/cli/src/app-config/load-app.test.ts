import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { CliError } from '../errors.ts'
import { temporaryFolder } from '../testing/run-cli.ts'
import { loadApp } from './load-app.ts'

async function folderWith(files: Record<string, string>): Promise<string> {
  const folder = await temporaryFolder()
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, path)), { recursive: true })
    await writeFile(join(folder, path), text)
  }
  return folder
}

async function mistakesOf(files: Record<string, string>): Promise<string[]> {
  const error: unknown = await loadApp(await folderWith(files)).catch((e: unknown) => e)
  expect(error).toBeInstanceOf(CliError)
  return (error as CliError).lines
}

const metadata = 'version = "v1"\ndisplay_name = "Hello, Wörld"\ndescription = "Says hello"\n'
const web =
  'name = "web"\ntype = "script"\nsource = "../src/web"\ndependencies = ["db"]\n\n[settings]\nport = 8080\n'
const db = 'name = "db"\ntype = "script"\nsource = "src/db"\n'
const good = {
  'metadata.toml': metadata,
  'components/web.toml': web,
  'components/db.toml': db,
  'src/web/deploy.sh': '',
  'src/db/deploy.sh': '',
}

describe('loading an app', () => {
  it('takes the name from the display name, and everything that is not its own into the component’s config', async () => {
    const { app, sources } = await loadApp(await folderWith(good))
    expect(app).toEqual({
      name: 'hello-world',
      displayName: 'Hello, Wörld',
      description: 'Says hello',
      components: [
        { name: 'db', type: 'script', dependencies: [], config: {} },
        { name: 'web', type: 'script', dependencies: ['db'], config: { settings: { port: 8080 } } },
      ],
    })
    expect([...sources.keys()]).toEqual(['db', 'web'])
    expect(sources.get('web')).toMatch(/src\/web$/)
  })

  it('takes a given name first, and names files it does not act on', async () => {
    const loaded = await loadApp(await folderWith({ ...good, 'sandbox.toml': '' }), 'other')
    expect(loaded.app.name).toBe('other')
    expect(loaded.unused).toEqual(['sandbox.toml'])
  })

  it('falls back to the folder’s name', async () => {
    const folder = await folderWith({ ...good, 'metadata.toml': '' })
    const slug = folder
      .split('/')
      .at(-1)!
      .toLowerCase()
      .replaceAll(/[^a-z0-9]+/g, '-')
    expect((await loadApp(folder)).app.name).toBe(slug)
  })
})

describe('mistakes in an app', () => {
  it('are told all at once, each with file, line, column and what was expected', async () => {
    const lines = await mistakesOf({
      'metadata.toml': 'display_name = 7\n',
      'components/a.toml':
        '# a comment\nname = "A B"\ntype = "helm"\n  dependencies = "db"\nsource = "../src"\n',
      'components/b.toml': 'name = "b"\ntype = \n',
      'components/c.toml': 'name = "c"\ntype = "script"\nsource = "../nowhere"\n',
      'src/x': '',
    })
    expect(lines).toEqual([
      'metadata.toml:1:1: display_name has a wrong value; expected a string',
      'components/a.toml:2:1: name has a wrong value; expected 1 to 63 of a-z, 0-9 and -, starting and ending with a letter or digit',
      'components/a.toml:3:1: type has a wrong value; expected "script"',
      'components/a.toml:4:3: dependencies has a wrong value; expected a list',
      expect.stringMatching(/^components\/b\.toml:2:\d+: .+; expected valid TOML$/),
      expect.stringMatching(
        /^components\/c\.toml:3:1: source names no folder: \.\.\/nowhere; expected a folder such as /,
      ),
    ])
  })

  it('include what is missing', async () => {
    expect(await mistakesOf({ 'components/a.toml': 'type = "script"\n' })).toEqual([
      'metadata.toml:1:1: the file is missing; expected a file with display_name and description',
      'components/a.toml:1:1: name is missing; expected a string',
      'components/a.toml:1:1: source is missing; expected a string',
    ])
    expect(await mistakesOf({ 'metadata.toml': metadata })).toEqual([
      'components:1:1: there is no component; expected at least one file such as components/web.toml',
    ])
  })

  it('include unknown dependencies, names taken twice and cycles with their path', async () => {
    const lines = await mistakesOf({
      'metadata.toml': metadata,
      'components/a.toml': 'name = "a"\ntype = "script"\nsource = "../src"\ndependencies = ["b"]\n',
      'components/b.toml': 'name = "b"\ntype = "script"\nsource = "../src"\ndependencies = ["a", "zz"]\n',
      'components/b2.toml': 'name = "b"\ntype = "script"\nsource = "../src"\n',
      'components/c.toml': 'name = "c"\ntype = "script"\nsource = "../src"\ndependencies = ["c"]\n',
      'src/x': '',
    })
    expect(lines).toContain(
      'components/b2.toml:1:1: another component is named b; expected a name of its own',
    )
    expect(lines).toContainEqual(expect.stringContaining('there is no component zz; expected one of a, b'))
    expect(lines).toContainEqual(expect.stringMatching(/depend on each other: .+ → .+; expected no cycle/))
  })

  it('include a source outside of the app’s own repository', async () => {
    const elsewhere = await temporaryFolder()
    const lines = await mistakesOf({
      'metadata.toml': metadata,
      'components/a.toml': `name = "a"\ntype = "script"\nsource = "${elsewhere}"\n`,
    })
    expect(lines).toEqual([expect.stringContaining('expected a folder of the same repository')])
  })
})
