import { join } from 'node:path'
import { errorLine } from '../sdk/errors.ts'
import { readJobConfig } from './config.ts'
import { runJob } from './run-job.ts'

const print = (line: string) => void process.stdout.write(`${line}\n`)
const fail = (error: unknown) => {
  print(errorLine(error))
  process.exit(1)
}

const stop = new AbortController()
process.on('SIGTERM', () => stop.abort())
process.on('SIGINT', () => stop.abort())
process.on('uncaughtException', fail)
process.on('unhandledRejection', fail)

try {
  const config = await readJobConfig(process.env)
  const workDir = join(process.cwd(), 'job')
  const isDone = await runJob({ ...config, workDir, log: print, signal: stop.signal, now: Date.now })
  // A plugin may leave timers or connections behind; the job ends all the same.
  process.exit(isDone ? 0 : 1)
} catch (error) {
  fail(error)
}
