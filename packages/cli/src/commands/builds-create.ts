import { buildables, sizeWords } from '@tenon/core'
import { packFolder } from '@tenon/oci'
import type { CallOutput, Client } from '@tenon/protocol'
import { readIgnore } from '../app-config/ignore-file.ts'
import type { Cli } from '../cli.ts'
import { sha256 } from '../crypto.ts'
import { CliError, usageError } from '../errors.ts'
import { EXIT } from '../exit-codes.ts'
import { lastLogLines } from '../follow/log-tail.ts'
import { createReconnect } from '../follow/reconnect.ts'
import { plain } from '../output/clean.ts'
import { createLive } from '../output/live.ts'
import { paintStatus } from '../output/paint.ts'
import { withProgress } from '../output/progress.ts'
import { renderTable } from '../output/table.ts'
import { between } from '../output/words.ts'
import { describeSync, syncApp } from './apps.ts'

type Build = CallOutput<'builds.get'>
const POLL_MS = 500
/** Without a terminal, a build that goes on says so this often. */
const SAY_AGAIN_MS = 5000
const MOST_SOURCE_BYTES = 512 * 1024 * 1024

interface Options {
  component?: string[] | undefined
  name?: string | undefined
  detach?: true | undefined
}

/** Sync, send the sources, build, follow. */
export async function createBuilds(cli: Cli, dir: string, options: Options): Promise<void> {
  const { out } = cli
  const client = await cli.client()
  const { loaded, answer } = await syncApp(cli, client, dir, options.name)
  out.note(describeSync(answer))
  const components: { name: string; source: string | null }[] = []
  const known = buildables(loaded.app).map(({ name }) => name)
  for (const name of chosen(known, options.component)) {
    const folder = loaded.sources.get(name)
    const source = folder === undefined ? null : await sendSource(cli, client, name, folder)
    components.push({ name, source })
  }
  const { builds } = await client.call('builds.create', {
    params: { ref: loaded.app.name },
    body: { components },
  })
  if (options.detach) return showBuilds(cli, builds)
  const ended = await followBuilds(cli, client, builds)
  showBuilds(cli, ended)
  if (ended.some((build) => !hasEnded(build))) return detached(cli, ended)
  await explain(cli, client, ended)
}

function chosen(known: readonly string[], wanted: readonly string[] | undefined): readonly string[] {
  const unknown = wanted?.find((name) => !known.includes(name))
  if (unknown !== undefined)
    throw usageError(`the app has nothing to build that is called ${unknown}`, `it has: ${known.join(', ')}`)
  return wanted ?? known
}

async function sendSource(cli: Cli, client: Client, name: string, folder: string): Promise<string> {
  const ignore = await readIgnore(folder)
  let size = 0
  const packed = await withProgress(
    cli.io,
    () => `packing the source of ${name} (${sizeWords(size)})`,
    packFolder(folder, {
      ignore,
      maxBytes: MOST_SOURCE_BYTES,
      links: 'inside',
      onBytes: (count) => (size += count),
    }),
  ).catch((cause: unknown) => {
    throw new CliError(
      EXIT.usage,
      `cannot pack the source of ${name} in ${folder}: ${(cause as Error).message}`,
      { cause },
    )
  })
  const sent = await withProgress(
    cli.io,
    () => `sending the source of ${name} (${sizeWords(packed.length)})`,
    client.call('sources.put', { body: packed }),
  )
  if (sent.layer === `sha256:${sha256(packed)}`) return sent.digest
  throw new CliError(EXIT.internal, `the server stored other bytes than were sent for ${name}`, {
    next: 'a proxy on the way may change uploads; try again without it',
  })
}

async function followBuilds(cli: Cli, client: Client, started: readonly Build[]): Promise<Build[]> {
  const { io, out } = cli
  const stop = new AbortController()
  const off = io.onSignal('SIGINT', () => stop.abort())
  const signal = AbortSignal.any([stop.signal, cli.closed])
  const reconnect = createReconnect(io.clock, signal, () => out.note('the connection is away; reconnecting'))
  const view = createBuildsView(cli)
  let builds = [...started]
  try {
    view.show(builds)
    while (!signal.aborted && !builds.every(hasEnded)) {
      await io.clock.sleep(POLL_MS, signal)
      try {
        builds = await Promise.all(
          builds.map((b) =>
            hasEnded(b)
              ? Promise.resolve(b)
              : client.call('builds.get', { params: { id: b.id } }, { signal }),
          ),
        )
        reconnect.alive()
        view.show(builds)
      } catch (error) {
        if (!signal.aborted) await reconnect.pause(error)
      }
    }
    return builds
  } finally {
    off()
    view.end()
  }
}

function createBuildsView(cli: Cli): { show(builds: readonly Build[]): void; end(): void } {
  const { io, out } = cli
  if (io.stderr.isTTY) {
    const live = createLive(io.stderr)
    return {
      show: (builds) => live.draw(tableOf(cli, builds, io.stderr.columns || 80)),
      end: () => live.clear(),
    }
  }
  const seen = new Map<string, { status: string; at: number }>()
  return {
    show(builds) {
      const now = io.clock.now()
      for (const build of builds) {
        const told = seen.get(build.id)
        const isNew = told?.status !== build.status
        if (!isNew && (hasEnded(build) || now - told.at < SAY_AGAIN_MS)) continue
        seen.set(build.id, { status: build.status, at: now })
        const took = isNew ? '' : ` for ${between(build.createdAt, null, now)}`
        const said = build.message ? ` (${plain(build.message)})` : ''
        out.note(`build ${build.component}: ${build.status}${took}${said}`)
      }
    },
    end: () => undefined,
  }
}

function tableOf(cli: Cli, builds: readonly Build[], width: number | undefined): string[] {
  const paint = cli.out.paint
  return renderTable(
    [
      { title: 'COMPONENT', value: (b: Build) => b.component },
      { title: 'STATUS', value: (b) => b.status, paint: (text, b) => paintStatus(paint, b.status, text) },
      { title: 'TOOK', value: (b) => between(b.createdAt, b.finishedAt, cli.io.clock.now()) },
      { title: 'BUILD', value: (b) => b.id },
      { title: 'ARTIFACT', value: (b) => b.artifact, shrink: true },
    ],
    builds,
    { width, bold: paint.bold },
  )
}

function showBuilds(cli: Cli, builds: readonly Build[]): void {
  if (cli.globals.json) return cli.out.json({ builds })
  for (const line of tableOf(cli, builds, cli.out.width)) cli.out.line(line)
}

function detached(cli: Cli, builds: readonly Build[]): void {
  cli.exitCode = EXIT.interrupted
  const going = builds.filter((build) => !hasEnded(build))
  cli.out.note(`detached: ${going.length} of ${builds.length} builds go on`)
  cli.out.note(`next: tenon builds list, or stop one: tenon builds cancel ${going[0]?.id}`)
}

async function explain(cli: Cli, client: Client, builds: readonly Build[]): Promise<void> {
  const { out } = cli
  const failed = builds.filter((build) => build.status !== 'succeeded')
  if (failed.length === 0) return
  cli.exitCode = EXIT.failed
  for (const build of failed) {
    const why = plain(build.message) || 'no reason was given'
    out.note(
      `${out.notePaint.red('error:')} the build of ${build.component} ${build.status === 'failed' ? 'failed' : 'was canceled'}: ${why}`,
    )
    if (build.jobId === null) continue
    for (const line of await lastLogLines(client, build.jobId, cli.io.stderr.isTTY === true))
      out.note(`  | ${line}`)
  }
  const job = failed.find((build) => build.jobId !== null)?.jobId
  out.note(
    `${out.notePaint.bold('next:')} ${job ? `tenon logs ${job}` : `tenon builds show ${failed[0]?.id}`}`,
  )
}

function hasEnded(build: Build): boolean {
  return build.status === 'succeeded' || build.status === 'failed' || build.status === 'canceled'
}
