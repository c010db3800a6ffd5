import { open } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'
import type { Logger } from 'pino'
import { pause } from '../../pause.ts'
import type { KubeApi } from './kube-api.ts'
import type { PodExec } from './kube-exec.ts'
import { FOLLOW, REST } from './pod-scripts.ts'
import { CONTAINER } from './pod-spec.ts'

/** Between two looks at a log that grows, and at one that does not. */
const SOON_MILLISECONDS = 100
const LATER_MILLISECONDS = 1_000
const AGAIN_MILLISECONDS = 500
const LAST_TRIES_MILLISECONDS = 15_000

/** Brings a job's log from its pod to the agent's disk, byte for byte. */
export interface LogCollector {
  /** What the wrapper said first: `ready` or `refused …`. Pending for ever when it never spoke. */
  readonly first: Promise<string>
  /** Reads what is left of an ended job. False when some of it may be lost. */
  finish(wrapperSpoke: boolean, isSilent: () => boolean): Promise<boolean>
  close(): void
}

/**
 * Where the file ends is where the log goes on, also for the next agent. Bytes are written at their own place, so two
 * that collect the same log, as in a change of agents, do each other no harm.
 */
export function collectLog(api: KubeApi, file: string, pod: string, log: Logger): LogCollector {
  const closed = new AbortController()
  let speak: (word: string) => void = () => undefined
  const first = new Promise<string>((resolve) => (speak = resolve))
  let isFinishing = false
  let current: PodExec | undefined
  let done = false

  async function once(handle: FileHandle, script: string): Promise<boolean> {
    let { size: position } = await handle.stat()
    const command = ['/bin/sh', '-c', script, 'tenon-log', String(position)]
    const target = { pod, container: CONTAINER.keeper, command, signal: closed.signal }
    const exec = await api.exec({ ...target, stdin: script === FOLLOW })
    current = exec
    const asking = script === FOLLOW ? createAsking(exec, () => isFinishing) : undefined
    try {
      let said = ''
      for await (const { stream, bytes } of exec.output) {
        if (stream === 'stderr') {
          said += Buffer.from(bytes).toString('utf8')
          if (said.includes('\n')) speak(said.slice(0, said.indexOf('\n')))
          continue
        }
        await handle.write(bytes, 0, bytes.byteLength, position)
        position += bytes.byteLength
        asking?.grew()
      }
      return (await exec.exitCode) === 0
    } finally {
      asking?.close()
      current = undefined
    }
  }

  async function follow(): Promise<void> {
    const handle = await open(file, 'r+')
    try {
      while (!closed.signal.aborted && !done) {
        try {
          done = (await once(handle, FOLLOW)) && isFinishing
        } catch (error) {
          if (closed.signal.aborted) return
          log.debug({ err: error, pod }, 'the log of a job cannot be read now')
          await pause(AGAIN_MILLISECONDS, closed.signal)
        }
      }
    } finally {
      await handle.close()
    }
  }

  async function rest(isSilent: () => boolean): Promise<boolean> {
    current?.close()
    const handle = await open(file, 'r+')
    const patience = AbortSignal.any([closed.signal, AbortSignal.timeout(LAST_TRIES_MILLISECONDS)])
    try {
      while (!patience.aborted) {
        const isRead = await once(handle, REST).catch(() => false)
        if (isRead) return true
        if (isSilent()) return false
        await pause(AGAIN_MILLISECONDS, patience)
      }
      return false
    } finally {
      await handle.close()
    }
  }

  const following = follow().catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT')
      log.warn({ err: error, pod }, 'a log cannot be kept')
  })
  return {
    first,
    async finish(wrapperSpoke, isSilent) {
      if (!wrapperSpoke) {
        done = true
        return rest(isSilent)
      }
      isFinishing = true
      current?.write(Buffer.from('end\n'))
      const patience = AbortSignal.any([closed.signal, AbortSignal.timeout(LAST_TRIES_MILLISECONDS)])
      const watch = new AbortController()
      const hopeless = (async () => {
        do await pause(AGAIN_MILLISECONDS, AbortSignal.any([patience, watch.signal]))
        while (!patience.aborted && !watch.signal.aborted && !(isSilent() && current === undefined))
      })()
      await Promise.race([following, hopeless])
      watch.abort()
      return done
    },
    close() {
      closed.abort()
    },
  }
}

/** The pod's side answers each word with what is new: often while the log grows, seldom while it does not. */
function createAsking(exec: PodExec, isLast: () => boolean): { grew(): void; close(): void } {
  let interval = SOON_MILLISECONDS
  let timer: NodeJS.Timeout | undefined
  const ask = () => {
    exec.write(Buffer.from(isLast() ? 'end\n' : 'go\n'))
    interval = Math.min(interval * 1.5, LATER_MILLISECONDS)
    timer = setTimeout(ask, interval)
  }
  ask()
  return {
    grew() {
      interval = SOON_MILLISECONDS
      clearTimeout(timer)
      timer = setTimeout(ask, interval)
    },
    close: () => clearTimeout(timer),
  }
}
