import pc from 'picocolors'
import type { Io, Terminal } from '../io.ts'

export type Paint = ReturnType<typeof pc.createColors>

/** Colour only for a person at a terminal who has not asked for none (https://no-color.org). */
export function paintFor(stream: Terminal, env: Io['env']): Paint {
  return pc.createColors(stream.isTTY === true && !env['NO_COLOR'] && env['TERM'] !== 'dumb')
}

const GOOD = new Set(['succeeded', 'active', 'enrolled', 'ok', 'connected', 'current', 'delivered'])
const BAD = new Set(['failed', 'lost', 'revoked', 'fail', 'refused', 'expired'])
const ODD = new Set(['canceled', 'replaced', 'warn', 'away', 'skipped', 'deprovisioning'])
const BUSY = new Set(['running', 'assigned', 'held', 'provisioning', 'deploying', 'syncing'])

export function paintStatus(paint: Paint, status: string, text: string = status): string {
  if (GOOD.has(status)) return paint.green(text)
  if (BAD.has(status)) return paint.red(text)
  if (ODD.has(status)) return paint.yellow(text)
  if (BUSY.has(status)) return paint.cyan(text)
  return text
}
