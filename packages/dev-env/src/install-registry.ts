import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startProgram, type Program } from './program.ts'
import type { World } from './world.ts'

export interface InstallRegistry {
  program: Program
  /** What the install's agent is told of it. */
  env: { TENON_REGISTRY_URL: string; TENON_REGISTRY_KEY_FILE: string }
}

/** On this machine's loopback; its folder, its key and its log lie in the world's. */
export async function startInstallRegistry(
  world: World,
  dist: string,
  install: string,
): Promise<InstallRegistry> {
  const name = `${install}-registry`
  const keyFile = join(world.folder(`${install}-keys`), 'registry.key')
  writeFileSync(keyFile, randomBytes(32).toString('base64url'), { mode: 0o600 })
  const program = startProgram({
    name,
    bundle: join(dist, 'registry.mjs'),
    args: ['--dir', world.folder(name), '--port', '0', '--key-file', keyFile],
    env: { PATH: process.env['PATH'] ?? '' },
    logFile: join(world.folder('log'), `${name}.log`),
  })
  const url = (await program.firstLine()).replace('registry listens at ', '')
  return { program, env: { TENON_REGISTRY_URL: url, TENON_REGISTRY_KEY_FILE: keyFile } }
}
