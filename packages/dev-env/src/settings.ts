import { resolve } from 'node:path'

export class SettingError extends Error {
  readonly next: string
  constructor(message: string, next: string) {
    super(message)
    this.name = 'SettingError'
    this.next = next
  }
}

/** What a person can say to `npm start`. An empty variable counts as absent. */
export function readSettings(
  env: Readonly<Record<string, string | undefined>>,
  from: { root: string; cwd: string },
): { dir: string; port: number; serverEnv: Record<string, string> } {
  const port = env['TENON_PORT'] || '7080'
  if (!/^\d{1,5}$/.test(port) || Number(port) > 65_535) {
    throw new SettingError(
      `TENON_PORT is ${JSON.stringify(port)}: expected a whole number from 0 to 65535`,
      'set it to a free port, or leave it out for 7080.',
    )
  }
  const dir = env['TENON_DIR'] ? resolve(from.cwd, env['TENON_DIR']) : resolve(from.root, '.tenon')
  return { dir, port: Number(port), serverEnv: serverSettings(env) }
}

/** Its data and its port are those of `npm start`; the others are about whom the CLI talks to. */
const NOT_OF_THE_SERVER = /^TENON_(DIR|DATA_DIR|PORT|URL|TOKEN|TOKEN_FILE|CONTEXT|TEST_.*)$/

/** The server takes what it knows, and says what is wrong with it. */
function serverSettings(env: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const named = Object.entries(env).filter(
    ([name, value]) => name.startsWith('TENON_') && value && !NOT_OF_THE_SERVER.test(name),
  )
  return Object.fromEntries(named.map(([name, value]) => [name, value!]))
}
