import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { startDemo } from './demo.ts'
import { readSettings, SettingError } from './settings.ts'

const dist = dirname(fileURLToPath(import.meta.url))
const root = dirname(dist)
try {
  process.exitCode = await startDemo({
    root,
    dist,
    ...readSettings(process.env, { root, cwd: process.cwd() }),
    print: (line) => process.stdout.write(`${line}\n`),
    onSignal: (stop) => {
      for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, stop)
      // Nobody can be told any more where things are, so they stop as with Ctrl-C.
      for (const stream of [process.stdout, process.stderr]) stream.on('error', stop)
    },
  })
} catch (error) {
  if (!(error instanceof SettingError)) throw error
  process.stderr.write(`error: ${error.message}\nnext: ${error.next}\n`)
  process.exitCode = 1
}
