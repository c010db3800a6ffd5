import { spawnSync } from 'node:child_process'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseManifest, readBlob, unpackTarGz, type Digest } from '@tenon/oci'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createBuildWorld, type BuildEnd, type BuildWorld } from '../testing/build-world.ts'
import { startDockerd, type TestDockerd } from '../testing/dockerd.ts'
import { isInstalled, pathWith } from '../testing/tools.ts'
import { normalizeConfig, normalizeManifest } from './normalize-image.ts'

const BUILDERS = ['buildah', 'podman', 'docker'] as const
const DAEMONLESS = ['buildah', 'podman'] as const
const programs: Record<string, string | undefined> = Object.fromEntries(
  [...DAEMONLESS, 'unshare'].map((name) => [
    name,
    isInstalled(name, '--version') ? whereIs(name) : undefined,
  ]),
)
programs['docker'] = dockerWithBuildKit()
const isRoot = process.getuid?.() === 0

/** The rights that the process runtime leaves to a build job. */
const CONFINED = (
  '--unshare-user-try --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup-try --cap-drop ALL ' +
  '--cap-add CAP_SETFCAP --as-pid-1 --ro-bind / / --proc /proc --dev /dev --tmpfs /run'
).split(' ')

const FILES = {
  Dockerfile: `FROM scratch AS base
COPY app/ /app/
FROM base AS extra
ARG VERSION=none
LABEL version=$VERSION
COPY extra.txt /extra.txt
FROM base
ENTRYPOINT ["/app/run.sh"]
`,
  'app/run.sh': '#!/bin/sh\n',
  'extra.txt': 'more',
  'left-out.txt': 'x',
  '.dockerignore': 'left-out.txt\n',
}

describe('the component type docker_build', { timeout: 240_000 }, () => {
  let world: BuildWorld
  let path: Record<(typeof BUILDERS)[number] | 'none', string>
  let engine: TestDockerd | undefined

  beforeAll(async () => {
    world = await createBuildWorld('docker_build')
    const only = (name: (typeof BUILDERS)[number]) =>
      pathWith(join(world.world.dir, `only-${name}`), {
        [name]: programs[name],
        unshare: programs['unshare'],
      })
    if (programs['docker'] !== undefined && isRoot) engine = await startDockerd()
    path = {
      buildah: only('buildah'),
      podman: only('podman'),
      docker: only('docker'),
      none: pathWith(join(world.world.dir, 'only-none'), {}),
    }
  })
  afterAll(async () => {
    await engine?.close()
    await world.close()
  })

  const envOf = (name: (typeof BUILDERS)[number]) => ({
    PATH: path[name],
    ...(name === 'docker' && engine !== undefined ? { TENON_LENT_PATHS: engine.lentFolder } : {}),
  })

  const imageOf = async ({ data }: BuildEnd) => {
    const { client } = world.vendor
    const fetched = await client.getManifest('apps/demo/part', data['digest'] as Digest)
    const manifest = parseManifest(fetched.mediaType, fetched.bytes)
    const config = manifest.config && (await readBlob(client, 'apps/demo/part', manifest.config, 1e6))
    const files: string[] = []
    for (const layer of manifest.layers) {
      const folder = join(await world.world.folder({}), 'layer')
      await unpackTarGz(
        (await client.getBlob('apps/demo/part', layer.digest, { size: layer.size })).stream,
        folder,
      )
      const entries = await readdir(folder, { recursive: true, withFileTypes: true })
      files.push(...entries.filter((entry) => entry.isFile()).map((entry) => entry.name))
    }
    return { config: JSON.parse(String(config)) as { config: object }, files, fetched }
  }

  describe.each(BUILDERS)('with %s (skipped where it is not installed)', (name) => {
    it.skipIf(programs[name] === undefined || !isRoot)(
      'builds the same image from the same source, whenever that was sent, and leaves nothing behind',
      async () => {
        const first = await world.build({ files: FILES, env: envOf(name) })
        expect(first.output).toContain('build succeeded')
        expect(first.output).toContain(`building with ${name}`)
        expect(first.data).toMatchObject({
          mediaType: 'application/vnd.oci.image.manifest.v1+json',
          repository: 'apps/demo/part',
          builder: name,
        })
        const again = await world.build({ files: FILES, env: envOf(name) })
        expect(again.data).toEqual(first.data)
        const { config, files } = await imageOf(first)
        expect(config).toMatchObject({
          created: '1970-01-01T00:00:00Z',
          config: { Entrypoint: ['/app/run.sh'] },
        })
        expect(files).toEqual(['run.sh'])
        expect(await readFile('/proc/self/mounts', 'utf8')).not.toContain(world.world.dir)
        const left = await readdir(join(first.jobFolder), { recursive: true })
        expect(left.filter((file) => file.includes('/builder/'))).toEqual([])
        expect(name === 'docker' ? await engine?.images() : []).toEqual([])
      },
    )

    it.skipIf(programs[name] === undefined || !isRoot)('builds a target with its arguments', async () => {
      const component = { target: 'extra', build_args: { VERSION: '1.2' } }
      const end = await world.build({ files: FILES, component, env: envOf(name) })
      const { config, files } = await imageOf(end)
      expect(config.config).toMatchObject({ Labels: { version: '1.2' } })
      expect(files.toSorted()).toEqual(['extra.txt', 'run.sh'])
      const other = await world.build({
        files: FILES,
        component: { ...component, build_args: { VERSION: '1.3' } },
        env: envOf(name),
      })
      expect(other.data['digest']).not.toBe(end.data['digest'])
    })

    it.skipIf(programs[name] === undefined || !isRoot)('says what the Dockerfile has wrong', async () => {
      const files = { ...FILES, Dockerfile: 'FROM scratch\nCOPY absent /absent\n' }
      const { data, output } = await world.build({ files, env: envOf(name) })
      expect(data).toEqual({ code: 'tool_failed' })
      expect(output).toMatch(/absent/)
    })
  })

  it.skipIf(DAEMONLESS.some((name) => programs[name] === undefined) || !isRoot)(
    'gives one digest with buildah and with podman (skipped where one is not installed)',
    async () => {
      const [one, two] = await Promise.all(
        DAEMONLESS.map((name) => world.build({ files: FILES, env: envOf(name) })),
      )
      expect(one?.data['digest']).toBeDefined()
      expect(two?.data['digest']).toBe(one?.data['digest'])
    },
  )

  it.skipIf(programs['buildah'] === undefined || !isRoot || !isInstalled('bwrap', ...CONFINED, 'true'))(
    'builds the same image in a confined job (skipped where buildah or bwrap cannot be used)',
    async () => {
      const free = await world.build({ files: FILES, env: { PATH: path.buildah } })
      const under = [whereIs('bwrap'), ...CONFINED, '--bind', world.world.dir, world.world.dir, '--']
      const confined = await world.build({ files: FILES, env: { PATH: path.buildah }, under })
      expect(confined.output).toContain('as root of a namespace of its own')
      expect(confined.output).toContain('build succeeded')
      expect(confined.data).toEqual(free.data)
    },
  )

  it.each([
    ['a Dockerfile that is not there', { dockerfile: 'Other' }, 'source_unreachable'],
    ['a Dockerfile outside of the source', { dockerfile: '../../token' }, 'source_refused'],
    ['a target that is an option', { target: '--volume=/:/host' }, 'config_invalid'],
    ['a template', { build_args: { X: '{{ .nuon.id }}' } }, 'config_invalid'],
  ])('refuses %s', async (_what, component, code) => {
    const env = { PATH: programs['buildah'] === undefined ? path.podman : path.buildah }
    const { data } = await world.build({ files: FILES, component, env })
    expect(data).toEqual({
      code:
        DAEMONLESS.every((name) => programs[name] === undefined) && code !== 'config_invalid'
          ? 'tool_missing'
          : code,
    })
  })

  it('says so where there is no builder', async () => {
    const { data, output } = await world.build({ files: FILES, env: { PATH: path.none } })
    expect(data).toMatchObject({ code: 'tool_missing' })
    expect(output).toContain('needs buildah, podman or docker with BuildKit')
  })

  it.skipIf(programs['docker'] === undefined)(
    'says so where docker has no engine (skipped where docker with BuildKit is not installed)',
    async () => {
      const lent = await world.world.folder({ 'docker.sock': 'no socket' })
      const env = { PATH: path.docker, TENON_LENT_PATHS: lent }
      const { data, output } = await world.build({ files: FILES, env })
      expect(data).toMatchObject({ code: 'tool_missing' })
      expect(output).toContain('its engine does not answer')
    },
  )
})

describe('an image without traces of its build', () => {
  it('keeps what the Dockerfile says', () => {
    const image = {
      created: '2026-01-01T00:00:00Z',
      config: { Env: ['A=1'], Labels: { 'io.buildah.version': '1', mine: 'x' } },
      history: [
        { created: 'x', created_by: `COPY file:${'a'.repeat(64)} in /a`, comment: 'FROM 123' },
        { created: 'x', created_by: 'RUN x', comment: 'mine' },
      ],
    }
    expect(normalizeConfig(image)).toEqual({
      created: '1970-01-01T00:00:00Z',
      config: { Env: ['A=1'], Labels: { mine: 'x' } },
      history: [
        { created: '1970-01-01T00:00:00Z', created_by: 'COPY file in /a' },
        { created: '1970-01-01T00:00:00Z', created_by: 'RUN x', comment: 'mine' },
      ],
    })
    const base = {
      'org.opencontainers.image.base.name': 'docker.io/x',
      'org.opencontainers.image.base.digest': 'd',
    }
    expect(normalizeManifest({ annotations: base })).toEqual({ annotations: base })
    expect(normalizeManifest({ annotations: { ...base, 'org.opencontainers.image.base.name': '' } })).toEqual(
      {},
    )
  })
})

/** The first docker on the PATH that has BuildKit, where an engine can be started for it. */
function dockerWithBuildKit(): string | undefined {
  if (!isInstalled('dockerd', '--version')) return undefined
  const all = spawnSync('sh', ['-c', 'for d in $(echo $PATH | tr : " "); do echo $d/docker; done'])
  return all.stdout
    .toString()
    .trim()
    .split('\n')
    .filter((program) => isInstalled(program, '--version'))
    .find((program) => hasBuildKit(program))
}

function hasBuildKit(program: string): boolean {
  const said = spawnSync(program, ['--version']).stdout.toString()
  return Number(/version (\d+)/.exec(said)?.[1] ?? 99) < 23 || isInstalled(program, 'buildx', 'version')
}

function whereIs(name: string): string {
  return spawnSync('sh', ['-c', `command -v ${name}`])
    .stdout.toString()
    .trim()
}
