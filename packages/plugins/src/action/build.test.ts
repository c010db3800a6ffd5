import { mkdtemp, readdir, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { copyArtifact, pullArtifactLayers, unpackTarGz, type Digest } from '@tenon/oci'
import { MEDIA_TYPES } from '@tenon/protocol'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { materialsOf } from '../sdk/attest.ts'
import { createBuildWorld, type BuildWorld } from '../testing/build-world.ts'
import type { GitRepository } from '../testing/git-server.ts'
import { createDeployWorld, type DeployWorld } from '../testing/deploy-world.ts'
import { sourceFolder } from './source-folder.ts'

const REPOSITORY = 'apps/demo/actions/backup'

describe('an action whose steps run in repositories', { timeout: 240_000 }, () => {
  let builds: BuildWorld
  let deploys: DeployWorld
  let git: GitRepository

  beforeAll(async () => {
    builds = await createBuildWorld('action')
    deploys = await createDeployWorld({ types: ['action'] })
    git = await builds.gitRepository()
    await git.commit(
      await builds.world.folder({
        'ops/backup.sh': '#!/bin/sh\necho "backup of $TABLE by $(cat mode)"; echo done > left-behind',
        'ops/mode': 'copy',
        'ops/look.sh': '#!/bin/sh\nls; test ! -e left-behind',
        'other/hello': 'from the other folder',
        'unused/big': 'not part of it',
      }),
    )
  }, 120_000)
  afterAll(async () => {
    await builds?.close()
    await deploys?.close()
  })

  const source = (directory: string, ref = 'main', repo = git.url) => ({
    kind: 'git' as const,
    repo,
    ref,
    directory,
  })
  const stepIn = (directory: string, command = './backup.sh', ref = 'main', repo = git.url) => ({
    name: `in ${directory}`,
    command,
    source: source(directory, ref, repo),
  })
  const build = (...steps: ReturnType<typeof stepIn>[]) =>
    builds.build({
      component: { steps: steps.map(({ name, source: from }) => ({ name, source: from })) },
      repository: REPOSITORY,
    })
  const sync = async (digest: string) => {
    const from = { client: builds.vendor.client, repository: REPOSITORY }
    const to = { client: deploys.registry.client, repository: REPOSITORY }
    await copyArtifact({ from, to, digest: digest as Digest })
    return { repository: REPOSITORY, digest }
  }

  it('is built into a folder for each source, the same every time, and says at which commit', async () => {
    const steps = [stepIn('ops'), stepIn('other'), stepIn('ops', './look.sh')]
    const first = await build(...steps)
    expect(first.output).toContain('build succeeded')
    const commit = await git.git('rev-parse', 'HEAD')
    expect(first.data).toMatchObject({
      mediaType: MEDIA_TYPES.action,
      repository: REPOSITORY,
      sources: [
        { repo: git.url, ref: 'main', directory: 'ops', commit },
        { repo: git.url, ref: 'main', directory: 'other', commit },
      ],
      materials: [{ uri: `git+${git.url}`, digest: { gitCommit: commit } }],
    })
    const result = { ok: true, message: '', data: first.data }
    expect(materialsOf(result)).toEqual(first.data['materials'])
    expect((await build(...steps)).data).toEqual(first.data)
    const pulled = await pullArtifactLayers({
      client: builds.vendor.client,
      repository: REPOSITORY,
      digest: first.data['digest'] as Digest,
      artifactType: MEDIA_TYPES.action,
    })
    const folder = join(builds.world.dir, 'unpacked')
    await unpackTarGz(await pulled.layers[0]!.open(), folder)
    expect((await readdir(folder, { recursive: true })).toSorted()).toEqual(
      [
        'sources',
        sourceFolder(source('ops')),
        ...['backup.sh', 'look.sh', 'mode'].map((file) => `${sourceFolder(source('ops'))}/${file}`),
        sourceFolder(source('other')),
        `${sourceFolder(source('other'))}/hello`,
      ].toSorted(),
    )
  })

  it('runs each step in a copy of its folder that is its own', async () => {
    const steps = [
      stepIn('ops'),
      stepIn('ops', './look.sh'),
      stepIn('other', 'cat hello; touch writable'),
      { name: 'plain', command: 'test -z "$(ls)"' },
    ]
    const { data } = await build(stepIn('ops'), stepIn('other'))
    const done = await deploys.run('action', {
      component: 'backup',
      type: 'action',
      artifact: await sync(data['digest'] as string),
      config: { steps, env: { TABLE: '{{ .nuon.inputs.inputs.table }}' } },
      inputs: { table: 'orders' },
    })
    expect(done).toMatchObject({ ok: true, message: 'All 4 steps succeeded.' })
    expect(done.log).toMatch(/backup of orders by copy[^]*backup\.sh[^]*from the other folder/)
  })

  it('says what to do when it was built for other steps, or not at all', async () => {
    const { data } = await build(stepIn('ops'))
    const artifact = await sync(data['digest'] as string)
    const given = { component: 'backup', type: 'action' as const, config: { steps: [stepIn('other')] } }
    const stale = await deploys.run('action', { ...given, artifact })
    expect(stale).toMatchObject({ ok: false, data: { code: 'artifact_invalid', final: true } })
    expect(stale.message).toMatch(/runs in: other of http.* `tenon builds create`/)
    expect(await deploys.run('action', given)).toMatchObject({
      ok: false,
      data: { code: 'artifact_missing' },
    })
  })

  it.each([
    ['an absolute link', '/etc/passwd', '.'],
    ['a link out of it', '../../../../etc', '.'],
    ['a link to nothing', './nowhere', '.'],
    ['a folder above it', 'hello', '../..'],
    ['a folder that is a link out', '/etc', 'way'],
  ])('is refused for %s', async (_what, target, directory) => {
    const hostile = await builds.gitRepository()
    const folder = await mkdtemp(join(tmpdir(), 'tenon-hostile-'))
    await symlink(target, join(folder, 'way'))
    await hostile.commit(folder)
    await rm(folder, { recursive: true })
    const { data, code } = await build(stepIn(directory, 'ls', 'main', hostile.url))
    expect([code, data]).toEqual([1, { code: 'source_refused' }])
  })

  it('takes what a link inside its repository points to', async () => {
    const linked = await builds.gitRepository()
    const folder = await builds.world.folder({ 'shared/lib.sh': '#!/bin/sh\necho shared', 'ops/keep': '' })
    await symlink('../shared/lib.sh', join(folder, 'ops', 'lib.sh'))
    await linked.commit(folder)
    const step = stepIn('ops', './lib.sh', 'main', linked.url)
    const { data } = await build(step)
    const artifact = await sync(data['digest'] as string)
    const done = await deploys.run('action', { type: 'action', artifact, config: { steps: [step] } })
    expect(done).toMatchObject({ ok: true })
    expect(done.log).toContain('shared')
  })

  it('tells of a branch that is not there, and of a repository that the build agent may not read', async () => {
    const unknown = await build(stepIn('ops', 'ls', 'gone'))
    expect(unknown.data).toEqual({ code: 'source_unreachable' })
    expect(unknown.output).toContain('has no "gone"')
    const closed = await build(stepIn('ops', 'ls', 'main', git.url.replace('repository', 'private')))
    expect(closed.data).toEqual({ code: 'source_unreachable' })
    expect(closed.output).toContain('lend it a git-credentials file')
  })
})
