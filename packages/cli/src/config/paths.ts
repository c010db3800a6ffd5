import { join } from 'node:path'
import type { Io } from '../io.ts'

type Where = Pick<Io, 'env' | 'host'>

export function configFile({ env, host }: Where): string {
  return join(env['XDG_CONFIG_HOME'] || join(host.home, '.config'), 'tenon', 'config.json')
}

export function stateFile({ env, host }: Where): string {
  return join(env['XDG_STATE_HOME'] || join(host.home, '.local', 'state'), 'tenon', 'known-servers.json')
}
