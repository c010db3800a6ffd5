import { sizeWords } from '@tenon/core'
import type { Command } from '@commander-js/extra-typings'
import type { CallOutput } from '@tenon/protocol'
import type { Cli } from '../cli.ts'
import { examples } from '../help-text.ts'
import { ago, plural, shortDigest } from '../output/words.ts'
import { AFTER, LIMIT, pageQuery, showPage, type PageOptions } from './paging.ts'

export function addArtifacts(program: Command, cli: Cli): void {
  const artifacts = program
    .command('artifacts')
    .description('what builds made, as the vendor registry holds it')
    .addHelpText('after', examples('tenon artifacts list --app my-app', 'tenon artifacts show bld_01…'))
  artifacts
    .command('list')
    .description('list artifacts, newest first')
    .option('--app <app>', 'only those of this app')
    .option('--component <name>', 'only those of this component')
    .option(...LIMIT)
    .option(...AFTER)
    .addHelpText(
      'after',
      examples('tenon artifacts list', 'tenon artifacts list --app my-app --component web'),
    )
    .action((options) => list(cli, options))
  artifacts
    .command('show')
    .description('one artifact: its manifests, the images it needs, its signatures, where it runs')
    .argument('<artifact>', 'its digest, or the id of its build')
    .addHelpText('after', examples('tenon artifacts show bld_01…', 'tenon artifacts show sha256:…'))
    .action(async (ref) => {
      const client = await cli.client()
      show(cli, await client.call('artifacts.get', { params: { ref } }))
    })
}

async function list(
  cli: Cli,
  options: PageOptions & { app?: string | undefined; component?: string | undefined },
): Promise<void> {
  const client = await cli.client()
  const { app, component } = options
  const only = { ...(app === undefined ? {} : { app }), ...(component === undefined ? {} : { component }) }
  const page = await client.call('artifacts.list', { query: { ...pageQuery(options), ...only } })
  const now = cli.io.clock.now()
  showPage(
    cli,
    page,
    [
      { title: 'BUILD', value: (a) => a.id },
      { title: 'APP', value: (a) => a.app },
      { title: 'COMPONENT', value: (a) => a.component },
      { title: 'DIGEST', value: (a) => shortDigest(a.digest) },
      { title: 'INSTALLS', value: (a) => String(a.installs) },
      { title: 'MADE', value: (a) => ago(a.createdAt, now) },
    ],
    Object.keys(only).length === 0 && options.after === undefined
      ? 'no artifacts yet; next: tenon builds create DIR'
      : 'no artifacts like that; next: tenon artifacts list',
  )
}

function show(cli: Cli, artifact: CallOutput<'artifacts.get'>): void {
  if (cli.globals.json) return cli.out.json(artifact)
  const { installed, signatures, closure, tree } = artifact
  cli.out.fields([
    ['digest', artifact.digest],
    ['repository', artifact.repository],
    ['type', artifact.artifactType ?? artifact.mediaType],
    ['app', artifact.app],
    ['component', artifact.component],
    ['build', artifact.id],
    ['made', artifact.createdAt],
    ['size', sizeWords(artifact.bytes)],
    ['runs in', installed.length === 0 ? 'no install' : installed.map(({ install }) => install).join(', ')],
  ])
  cli.out.line()
  cli.out.line('manifests')
  for (const { depth, digest, platform, size, blobs } of tree) {
    const indent = '  '.repeat(depth + 1)
    const about = [platform, sizeWords(size), plural(blobs.length, 'blob')].filter(Boolean).join(', ')
    cli.out.line(`${indent}${digest} (${about})`)
    for (const blob of blobs)
      cli.out.line(`${indent}  ${blob.digest} ${blob.mediaType}, ${sizeWords(blob.size)}`)
  }
  section(cli, 'images it needs', closure, ({ image, digest, isThere }) =>
    isThere ? `${image} ${digest}` : `${image} ${digest} (MISSING)`,
  )
  section(cli, 'signatures', signatures, ({ predicateType, keyId, isValid }) =>
    isValid ? `${predicateType} by ${keyId}` : `${predicateType} by ${keyId} (NOT VALID)`,
  )
}

function section<T>(cli: Cli, title: string, items: readonly T[], line: (item: T) => string): void {
  cli.out.line()
  cli.out.line(items.length === 0 ? `${title}: none` : title)
  for (const item of items) cli.out.line(`  ${line(item)}`)
}
