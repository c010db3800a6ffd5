import { chmod, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Digest } from '@tenon/oci'
import { MEDIA_TYPES } from '@tenon/protocol'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { materialsOf } from '../sdk/attest.ts'
import { createBuildWorld, type BuildWorld } from '../testing/build-world.ts'
import type { GitRepository } from '../testing/git-server.ts'

const DESCRIPTION = {
  name: 'queue',
  version: '1.2.0',
  operations: ['deploy'],
  kind: 'node',
  entry: 'main.mjs',
}
const PLUGIN = {
  'plugin.json': JSON.stringify(DESCRIPTION),
  'main.mjs': 'export default { operations: { deploy: async () => ({ ok: true, message: "", data: {} }) } }',
}

describe('the component type plugin', { timeout: 240_000 }, () => {
  let world: BuildWorld

  beforeAll(async () => {
    world = await createBuildWorld('plugin')
  })
  afterAll(() => world.close())

  it('builds the same artifact from the same folder, of the form that jobs load', async () => {
    const first = await world.build({ files: PLUGIN, repository: 'apps/demo/queue' })
    expect(first.output).toContain('build succeeded')
    expect(first.data).toMatchObject({
      repository: 'apps/demo/queue',
      mediaType: MEDIA_TYPES.plugin,
      plugin: { name: 'queue', version: '1.2.0', operations: ['deploy'] },
    })
    const again = await world.build({ files: PLUGIN, repository: 'apps/demo/queue' })
    expect(again.data).toEqual(first.data)
    const digest = first.data['digest'] as Digest
    const loaded = await world.world.jobApi(
      [{ plugin: { name: 'queue', repository: 'apps/demo/queue', digest } }],
      { registryCredential: again.record.registryCredential },
    )
    const job = await world.world.startJob(loaded)
    expect(await job.ended).toBe(0)
  })

  it.each([
    ['no plugin.json', { 'main.mjs': '' }, /has no plugin.json/],
    ['one that is not JSON', { ...PLUGIN, 'plugin.json': '{' }, /is not JSON/],
    [
      'one without an entry',
      { 'plugin.json': JSON.stringify(DESCRIPTION) },
      /entry "main.mjs", which is not there/,
    ],
    [
      'an unknown operation',
      { 'plugin.json': JSON.stringify({ ...DESCRIPTION, operations: ['dance'] }) },
      /operations/,
    ],
    [
      'an entry outside',
      { ...PLUGIN, 'plugin.json': JSON.stringify({ ...DESCRIPTION, entry: '../../token' }) },
      /leads out|not there/,
    ],
    [
      'a shell plugin without its executable',
      { 'plugin.json': JSON.stringify({ ...DESCRIPTION, kind: 'shell', entry: 'bin' }), 'bin/destroy': '' },
      /no executable deploy/,
    ],
  ])('refuses %s', async (_what, files, message) => {
    const { data, output, code } = await world.build({ files })
    expect(code).toBe(1)
    expect(data).toEqual({ code: 'plugin_invalid' })
    expect(output).toMatch(message)
  })

  describe('from a git repository', () => {
    let repository: GitRepository
    let commit: string
    const git = (more: object = {}) => ({
      kind: 'git' as const,
      repo: repository.url,
      ref: 'main',
      directory: 'queue',
      ...more,
    })

    beforeAll(async () => {
      repository = await world.gitRepository()
      const folder = await world.world.folder({
        'queue/plugin.json': PLUGIN['plugin.json'],
        'shared/main.mjs': PLUGIN['main.mjs'],
        '.gitmodules': '[submodule "x"]\n\tpath = x\n\turl = http://127.0.0.1:9/x.git\n',
      })
      await symlink('../shared/main.mjs', join(folder, 'queue/main.mjs'))
      await symlink('/etc/passwd', join(folder, 'shared/out'))
      await symlink('shared', join(folder, 'inner'))
      await symlink('/etc', join(folder, 'etc'))
      commit = await repository.commit(folder)
      await repository.git('tag', 'v1')
    })

    it('clones a branch, a tag and a commit, and records the commit', async () => {
      const branch = await world.build({ source: git() })
      expect(branch.output).toContain('build succeeded')
      expect(branch.data['source']).toEqual({ repo: repository.url, ref: 'main', commit })
      expect(materialsOf({ ok: true, message: '', data: branch.data })).toEqual([
        { uri: `git+${repository.url}`, digest: { gitCommit: commit } },
      ])
      const tag = await world.build({ source: git({ ref: 'v1' }) })
      expect(tag.data).toMatchObject({ digest: branch.data['digest'], source: { ref: 'v1', commit } })
      const named = await world.build({ source: git({ ref: commit }) })
      expect(named.data['digest']).toBe(branch.data['digest'])
      const short = await world.build({ source: git({ ref: commit.slice(0, 10) }) })
      expect(short.data).toMatchObject({ digest: branch.data['digest'], source: { commit } })
      const sent = await world.build({ files: PLUGIN })
      expect(sent.data['digest']).toBe(branch.data['digest'])
    })

    it.each([
      ['a ref that is not there', { ref: 'nowhere' }, 'source_unreachable', /has no "nowhere"/],
      ['a commit that is not there', { ref: 'f'.repeat(40) }, 'source_unreachable', /has no "fff/],
      ['a folder that is not there', { directory: 'absent' }, 'source_unreachable', /no folder "absent"/],
      ['a folder above the repository', { directory: '../..' }, 'source_refused', /leads out of the source/],
      ['an absolute folder', { directory: '/etc' }, 'source_refused', /leads out of the source/],
      ['a folder that is a link out', { directory: 'etc' }, 'source_refused', /is a link out of the source/],
      ['a link out in the folder', { directory: 'shared' }, 'source_refused', /"shared\/out" is a link out/],
      [
        'a ref that is an option',
        { ref: '--upload-pack=touch /tmp/x' },
        'config_invalid',
        /no branch, tag or commit/,
      ],
      ['a repository that is a command', { repo: 'ext::sh -c id' }, 'config_invalid', /is no git repository/],
      [
        'a repository on the machine itself',
        { repo: 'file:///etc' },
        'config_invalid',
        /is no git repository/,
      ],
      [
        'a repository that does not answer',
        { repo: 'http://127.0.0.1:9/x.git' },
        'source_unreachable',
        /cannot be read/,
      ],
    ])('refuses %s', async (_what, more, code, message) => {
      const { data, output } = await world.build({ source: git(more) })
      expect(data).toEqual({ code })
      expect(output).toMatch(message)
    })

    it('says so where there is no git', async () => {
      const { data, output } = await world.build({ source: git(), env: { PATH: '/nowhere' } })
      expect(data).toMatchObject({ code: 'tool_missing' })
      expect(output).toContain('needs git, and this job has none')
    })

    it('runs no hook that a template of the machine would bring', async () => {
      const home = await world.world.folder({
        'templates/hooks/post-checkout': '#!/bin/sh\ntouch "$HOME/ran"\n',
      })
      await chmod(join(home, 'templates/hooks/post-checkout'), 0o755)
      await writeFile(join(home, '.gitconfig'), `[init]\n\ttemplateDir = ${home}/templates\n`)
      const { data } = await world.build({ source: git(), env: { HOME: home } })
      expect(data['digest']).toBeDefined()
      await expect(writeFile(join(home, 'ran'), '', { flag: 'wx' })).resolves.toBeUndefined()
    })
  })

  it('refuses a component without a source', async () => {
    expect((await world.build({})).data).toEqual({ code: 'source_missing' })
  })
})
