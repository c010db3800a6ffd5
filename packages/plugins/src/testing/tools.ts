import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, symlinkSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

const BIN = process.env['TENON_TEST_TOOLS'] ?? join(homedir(), '.cache/tenon-tools/bin')

/** A tool that `scripts/test-tools.mjs` fetches; undefined where that did not run. */
export function testTool(name: 'helm3' | 'helm4' | 'kubectl'): string | undefined {
  const path = join(BIN, name)
  return existsSync(path) ? path : undefined
}

/** A PATH of exactly these programs, by the names they are looked for. */
export function pathWith(folder: string, programs: Record<string, string | undefined>): string {
  mkdirSync(folder, { recursive: true })
  for (const [name, program] of Object.entries(programs)) {
    if (program !== undefined) symlinkSync(program, join(folder, name))
  }
  return folder
}

export function isInstalled(program: string, ...args: string[]): boolean {
  return spawnSync(program, args, { timeout: 60_000, stdio: 'ignore' }).status === 0
}
