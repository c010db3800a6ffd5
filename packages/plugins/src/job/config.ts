import { readFile } from 'node:fs/promises'
import { JOB_SURROUNDINGS } from '@tenon/protocol'
import { PluginError } from '../sdk/errors.ts'
import type { SecureAddress } from '../sdk/unix-socket.ts'

export interface JobConfig {
  socketPath: string
  /** Where no socket of the agent can be seen, its address and the certificate that it has there. */
  secure?: SecureAddress
  token: string
  /** What programs that plugins start may inherit: where tools are, and by what the runtime knows this job's own. */
  baseEnv: Record<string, string>
  /** What the agent's relay serves on this job's own loopback. */
  network: { isClosed: boolean; forwards: string[]; proxy: string | undefined }
  /** Authorities that the agent's machine trusts besides the usual ones. */
  extraCa: string | undefined
}

const INHERITED = ['PATH', 'HOME', 'TMPDIR', 'LANG', 'TENON_LENT_PATHS', ...JOB_SURROUNDINGS]

export async function readJobConfig(env: Record<string, string | undefined>): Promise<JobConfig> {
  const url = env['TENON_JOB_URL'] ?? ''
  const tokenFile = env['TENON_JOB_TOKEN_FILE'] ?? ''
  const place = await readAddress(url, env['TENON_JOB_CA_FILE'])
  if (tokenFile === '') throw missing('TENON_JOB_TOKEN_FILE is not set')
  const token = await readFile(tokenFile, 'utf8').catch((cause: unknown) => {
    throw missing('the file of TENON_JOB_TOKEN_FILE cannot be read', cause)
  })
  const inherited = INHERITED.flatMap((name) => {
    const value = env[name]
    return value === undefined ? [] : [[name, value] as const]
  })
  return {
    ...place,
    token: token.trim(),
    baseEnv: Object.fromEntries(inherited),
    network: {
      isClosed: env['TENON_JOB_FORWARDS'] !== undefined,
      forwards: (env['TENON_JOB_FORWARDS'] ?? '').split(',').filter((place) => place !== ''),
      proxy: env['TENON_JOB_PROXY'],
    },
    extraCa: env['NODE_EXTRA_CA_CERTS'],
  }
}

async function readAddress(
  url: string,
  caFile: string | undefined,
): Promise<Pick<JobConfig, 'socketPath' | 'secure'>> {
  if (url.startsWith('unix:/')) return { socketPath: url.slice('unix:'.length) }
  if (!/^https:\/\/[^/]/.test(url)) {
    throw missing('TENON_JOB_URL must be unix: and an absolute path, or an https address')
  }
  if (!caFile) throw missing('TENON_JOB_CA_FILE is not set')
  const ca = await readFile(caFile, 'utf8').catch((cause: unknown) => {
    throw missing('the file of TENON_JOB_CA_FILE cannot be read', cause)
  })
  const { hostname, port } = new URL(url)
  const host = hostname.replaceAll(/^\[|\]$/g, '')
  return { socketPath: url, secure: { host, port: Number(port) || 443, ca } }
}

function missing(what: string, cause?: unknown): PluginError {
  return new PluginError(
    'bad_environment',
    `${what}.`,
    'This program runs only when an agent starts it.',
    cause,
  )
}
