import { homedir } from 'node:os'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { systemClock } from './io.ts'
import { run } from './run.ts'

process.exitCode = await run(process.argv.slice(2), {
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  env: process.env,
  cwd: process.cwd(),
  fetch,
  clock: systemClock,
  host: {
    node: process.execPath,
    nodeVersion: process.versions.node,
    platform: process.platform,
    home: homedir(),
    dist: dirname(fileURLToPath(import.meta.url)),
  },
  onSignal: (name, handler) => {
    process.on(name, handler)
    return () => process.off(name, handler)
  },
})
