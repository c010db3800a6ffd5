import { sizeWords } from '@tenon/core'
import type { Command } from '@commander-js/extra-typings'
import { collectGarbage, createFileStorage, type GarbageReport } from '@tenon/oci'
import type { Cli } from '../cli.ts'
import { examples } from '../help-text.ts'
import { plural } from '../output/words.ts'
import { confirm } from '../secrets/read-value.ts'
import { wholeNumber } from './paging.ts'
import { addRegistryLogin } from './registry-login.ts'

const HOUR_MS = 3_600_000

export function addRegistry(program: Command, cli: Cli): void {
  const registry = program
    .command('registry')
    .description('the vendor registry: access for other tools, what it holds, what nothing needs any more')
    .addHelpText(
      'after',
      examples('tenon registry login', 'tenon registry usage', 'tenon registry gc --dry-run'),
    )
  addRegistryLogin(registry as unknown as Command, cli)
  registry
    .command('usage')
    .description('how much room each repository takes')
    .addHelpText('after', examples('tenon registry usage', 'tenon registry usage --json'))
    .action(() => usage(cli))
  registry
    .command('gc')
    .description('remove what no build, plugin or unfinished job needs')
    .option('--dry-run', 'only say what would go')
    .option('--grace-hours <n>', 'keep what was touched within these hours', wholeNumber(2, 8760), 24)
    .option(
      '--dir <folder>',
      'an install registry’s own folder on this machine instead: only blobs that no manifest names and stale uploads go',
    )
    .option('--yes', 'do not ask')
    .addHelpText(
      'after',
      examples(
        'tenon registry gc --dry-run',
        'tenon registry gc --yes',
        'tenon registry gc --dir /var/lib/registry',
      ),
    )
    .action((options) => gc(cli, options))
}

async function usage(cli: Cli): Promise<void> {
  const client = await cli.client()
  const held = await client.call('registry.usage', {})
  if (cli.globals.json) return cli.out.json(held)
  cli.out.table(
    [
      { title: 'REPOSITORY', value: (r) => r.name },
      { title: 'MANIFESTS', value: (r) => String(r.manifests) },
      { title: 'BLOBS', value: (r) => String(r.blobs) },
      { title: 'TAGS', value: (r) => String(r.tags) },
      { title: 'SIZE', value: (r) => sizeWords(r.bytes) },
    ],
    held.repositories,
    'the registry is empty',
  )
  cli.out.note(`on disk, each content once: ${sizeWords(held.bytes)} in ${plural(held.contents, 'file')}`)
}

interface GcOptions {
  dryRun?: true
  graceHours: number
  dir?: string
  yes?: true
}

async function gc(cli: Cli, { graceHours, dir, ...options }: GcOptions): Promise<void> {
  const dryRun = options.dryRun === true
  const where = dir ?? 'the vendor registry'
  if (!dryRun) await confirm(cli.io, `remove what nothing needs from ${where}`, options.yes === true)
  const report =
    dir === undefined
      ? await (await cli.client()).call('registry.gc', { body: { dryRun, graceHours } })
      : await collectGarbage(await createFileStorage(dir), {
          dryRun,
          graceMs: graceHours * HOUR_MS,
          now: () => cli.io.clock.now(),
        })
  if (cli.globals.json) return cli.out.json(report)
  cli.out.line(describe(report))
}

function describe({ dryRun, manifests, blobs, contents, uploads, bytesFreed }: GarbageReport): string {
  const what = [
    plural(manifests, 'manifest'),
    plural(blobs, 'blob'),
    plural(contents, 'file'),
    plural(uploads, 'stale upload'),
  ].join(', ')
  return `${dryRun ? 'would remove' : 'removed'} ${what}; ${dryRun ? 'would free' : 'freed'} ${sizeWords(bytesFreed)}`
}
