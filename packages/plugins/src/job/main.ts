import { join } from 'node:path'
import { errorLine } from '../sdk/errors.ts'
import { trustAuthorities } from './authorities.ts'
import { readJobConfig } from './config.ts'
import { openJobNetwork } from './network.ts'
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
  const { network, extraCa, ...config } = await readJobConfig(process.env)
  const workDir = join(process.cwd(), 'job')
  const { env, ...way } = await openJobNetwork({ ...config, ...network, signal: stop.signal, log: print })
  const surroundings = { ...env, ...(await trustAuthorities(extraCa, process.cwd())) }
  // A plugin may start programs by itself, with the environment that it sees.
  Object.assign(process.env, surroundings)
  const baseEnv = { ...config.baseEnv, ...surroundings }
  const isDone = await runJob({
    ...config,
    ...way,
    baseEnv,
    workDir,
    log: print,
    signal: stop.signal,
    now: Date.now,
  })
  // A plugin may leave timers or connections behind; the job ends all the same.
  process.exit(isDone ? 0 : 1)
} catch (error) {
  fail(error)
}
