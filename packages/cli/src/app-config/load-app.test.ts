import { describe, expect, it } from 'vitest'
import { folderWith } from '../testing/app-folder.ts'
import { loadApp } from './load-app.ts'

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
        { name: 'db', type: 'script', dependencies: [], config: {}, source: { kind: 'folder' } },
        {
          name: 'web',
          type: 'script',
          dependencies: ['db'],
          config: { settings: { port: 8080 } },
          source: { kind: 'folder' },
        },
      ],
    })
    expect([...sources.keys()]).toEqual(['db', 'web'])
    expect(sources.get('web')).toMatch(/src\/web$/)
  })

  it('takes a given name first', async () => {
    expect((await loadApp(await folderWith(good), 'other')).app.name).toBe('other')
  })

  it('falls back to the folder’s name', async () => {
    const folder = await folderWith({ ...good, 'metadata.toml': 'version = "v1"' })
    const slug = folder
      .split('/')
      .at(-1)!
      .toLowerCase()
      .replaceAll(/[^a-z0-9]+/g, '-')
    expect((await loadApp(folder)).app.name).toBe(slug)
  })
})
