import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { startDemo } from './demo.ts'

const dist = dirname(fileURLToPath(import.meta.url))
process.exitCode = await startDemo({
  root: dirname(dist),
  dist,
  dir: process.env['TENON_DIR'] ?? join(dirname(dist), '.tenon'),
  port: Number(process.env['TENON_PORT'] ?? 7080),
  print: (line) => process.stdout.write(`${line}\n`),
  onSignal: (stop) => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, stop)
  },
})
