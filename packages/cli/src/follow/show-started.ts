import type { Client, RunView } from '@tenon/protocol'
import type { Cli } from '../cli.ts'
import { followRun } from './follow-run.ts'

/** What every command that starts a run ends with. */
export async function showStarted(cli: Cli, client: Client, run: RunView, detach: boolean): Promise<void> {
  if (!detach) return followRun(cli, client, run)
  if (cli.globals.json) return cli.out.json(run)
  cli.out.line(run.id)
  cli.out.note(`next: tenon runs watch ${run.id}`)
}
