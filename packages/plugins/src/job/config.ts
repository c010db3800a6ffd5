import { readFile } from 'node:fs/promises'
import { PluginError } from '../sdk/errors.ts'

export interface JobConfig {
  socketPath: string
  token: string
  /** What programs that plugins start may inherit: where tools are, and by what the runtime knows this job's own. */
  baseEnv: Record<string, string>
}

const INHERITED = [
  'PATH',
  'HOME',
  'TMPDIR',
  'LANG',
  'HTTPS_PROXY',
  'HTTP_PROXY',
  'NO_PROXY',
  'NODE_EXTRA_CA_CERTS',
  'TENON_LENT_PATHS',
]

export async function readJobConfig(env: Record<string, string | undefined>): Promise<JobConfig> {
  const url = env['TENON_JOB_URL'] ?? ''
  const tokenFile = env['TENON_JOB_TOKEN_FILE'] ?? ''
  if (!url.startsWith('unix:/')) throw missing('TENON_JOB_URL must be unix: and an absolute path')
  if (tokenFile === '') throw missing('TENON_JOB_TOKEN_FILE is not set')
  const token = await readFile(tokenFile, 'utf8').catch((cause: unknown) => {
    throw missing('the file of TENON_JOB_TOKEN_FILE cannot be read', cause)
  })
  const inherited = INHERITED.flatMap((name) => {
    const value = env[name]
    return value === undefined ? [] : [[name, value] as const]
  })
  return {
    socketPath: url.slice('unix:'.length),
    token: token.trim(),
    baseEnv: Object.fromEntries(inherited),
  }
}

function missing(what: string, cause?: unknown): PluginError {
  return new PluginError(
    'bad_environment',
    `${what}.`,
    'This program runs only when an agent starts it.',
    cause,
  )
}
