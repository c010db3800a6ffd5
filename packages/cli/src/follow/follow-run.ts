import type { Client, RunView } from '@tenon/protocol'
import type { Cli } from '../cli.ts'
import { EXIT } from '../exit-codes.ts'
import { createLive } from '../output/live.ts'
import { plain } from '../output/clean.ts'
import { lastLogLines } from './log-tail.ts'
import { changedSteps, renderRun } from './render-run.ts'
import { hasEnded, watchRun } from './watch-run.ts'

const TICK_MS = 1000

/** Shows a run until it ends, then what came of it; a failed run makes the exit code 1. */
export async function followRun(cli: Cli, client: Client, started: RunView): Promise<void> {
  const { io, out } = cli
  const stop = new AbortController()
  const off = io.onSignal('SIGINT', () => stop.abort())
  const view = createRunView(cli, started)
  let last: RunView = started
  let ended: RunView | undefined
  try {
    view.show(started)
    ended = hasEnded(started)
      ? started
      : await watchRun(started.id, {
          client,
          clock: io.clock,
          signal: AbortSignal.any([stop.signal, cli.closed]),
          onRun: (run) => view.show((last = run)),
          onAway: () => view.say('the connection is away; reconnecting'),
        })
  } finally {
    off()
    view.end()
  }
  if (!ended) return detached(cli, last)
  if (cli.globals.json) out.json(ended)
  else
    for (const line of renderRun(ended, { paint: out.paint, now: io.clock.now(), width: out.width }))
      out.line(line)
  if (ended.status === 'succeeded') return
  cli.exitCode = EXIT.failed
  await explainFailure(cli, client, ended)
}

function detached(cli: Cli, run: RunView): void {
  cli.exitCode = EXIT.interrupted
  cli.out.note(`detached: the ${run.kind} run ${run.id} goes on (${run.status})`)
  cli.out.note(`next: tenon runs watch ${run.id}, or stop it: tenon runs cancel ${run.id}`)
}

/** The step that failed, its reason, the end of its log, and what to type next. */
export async function explainFailure(cli: Cli, client: Client, run: RunView): Promise<void> {
  const { out } = cli
  const failed = run.steps.filter((step) => step.status === 'failed')
  const { red, bold, dim } = out.notePaint
  for (const step of failed) {
    out.note(`${red('error:')} ${plain(step.key)} failed: ${plain(step.message) || 'no reason was given'}`)
    if (step.jobId === null) continue
    for (const line of await lastLogLines(client, step.jobId, cli.io.stderr.isTTY === true))
      out.note(dim('  | ') + line)
  }
  if (failed.length === 0) out.note(`${red('error:')} the run was ${run.status}`)
  const step = failed[0]
  if (step === undefined) out.note(`${bold('next:')} tenon runs show ${run.id}`)
  else {
    const log = step.jobId === null ? '' : `tenon logs ${step.jobId}, then `
    out.note(`${bold('next:')} ${log}tenon runs retry ${run.id} ${plain(step.key)}`)
  }
}

interface View {
  show(run: RunView): void
  say(text: string): void
  end(): void
}

/** On a terminal a block that is drawn again in place, else a line for each change; always on stderr. */
function createRunView(cli: Cli, started: RunView): View {
  const { io, out } = cli
  if (!io.stderr.isTTY) {
    let before: RunView | undefined
    out.note(`${started.kind} ${plain(started.install)}: run ${started.id}`)
    return {
      show(run) {
        for (const line of changedSteps(before, run)) out.note(line)
        before = run
      },
      say: (text) => out.note(text),
      end: () => undefined,
    }
  }
  const live = createLive(io.stderr)
  let latest = started
  const hint = () => out.notePaint.dim('  Ctrl-C detaches; the run goes on')
  const draw = () => {
    const width = (io.stderr.columns || 80) - 1
    live.draw([...renderRun(latest, { paint: out.notePaint, now: io.clock.now(), width }), hint()])
  }
  const ticker = setInterval(draw, TICK_MS)
  return {
    show(run) {
      latest = run
      draw()
    },
    say(text) {
      live.clear()
      out.note(text)
      draw()
    },
    end() {
      clearInterval(ticker)
      live.clear()
    },
  }
}
