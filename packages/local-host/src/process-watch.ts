import type { Health, UnitState } from '@tenon/protocol/local-host'
import { probeHttp } from './health.ts'
import { boundLog, MAX_LOG_BYTES } from './unit-log.ts'

const TICK_MS = 500
const STARTING_PROBE_MS = 150
/** Without a probe, a process that stays up this long counts as healthy. */
const SETTLE_MS = 500

/** Looks after one process: probes its health, bounds its log, and sees an adopted one end. */
export function watchProcess(options: WatchOptions): Watch {
  const { health, onFault } = options
  const watch = { stopped: false }
  const probe = async () => {
    if (health === 'none') return options.onProbe(undefined)
    const { port, path } = health.http
    const error = await probeHttp({ port, path, timeoutMs: health.timeoutSeconds * 1000 })
    if (!watch.stopped) options.onProbe(error)
  }
  const probeDelay = () => {
    if (health === 'none') return options.state() === 'healthy' ? undefined : SETTLE_MS
    const usual = health.intervalSeconds * 1000
    return options.state() === 'starting' ? Math.min(STARTING_PROBE_MS, usual) : usual
  }
  let probeTimer: NodeJS.Timeout | undefined
  const scheduleProbe = () => {
    const wait = watch.stopped ? undefined : probeDelay()
    if (wait === undefined) return
    probeTimer = setTimeout(() => void probe().catch(onFault).finally(scheduleProbe), wait)
  }
  const ticker = setInterval(() => {
    try {
      boundLog(options.logPath, MAX_LOG_BYTES)
      if (options.isAlive && !options.isAlive()) options.onGone()
    } catch (error) {
      onFault(error)
    }
  }, TICK_MS)
  scheduleProbe()
  return {
    stop() {
      watch.stopped = true
      clearTimeout(probeTimer)
      clearInterval(ticker)
    },
  }
}

export interface Watch {
  stop(): void
}

interface WatchOptions {
  health: Health
  logPath: string
  /** Asked only for a process that is not our child; a child tells its end itself. */
  isAlive: (() => boolean) | undefined
  state: () => UnitState
  onGone: () => void
  onProbe: (error: string | undefined) => void
  onFault: (error: unknown) => void
}
