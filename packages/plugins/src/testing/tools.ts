import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs'
import { homedir } from 'node:os'
import { delimiter, join } from 'node:path'

const BIN = process.env['TENON_TEST_TOOLS'] ?? join(homedir(), '.cache/tenon-tools/bin')

/** A tool that `scripts/test-tools.mjs` fetches; undefined where that did not run. */
export function testTool(name: 'helm3' | 'helm4' | 'kubectl' | 'tofu'): string | undefined {
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

/** Where a program of the PATH lies. */
export function installed(program: string): string | undefined {
  const folders = (process.env['PATH'] ?? '').split(delimiter)
  return folders.map((folder) => join(folder, program)).find((path) => existsSync(path))
}

/** The engines of `terraform_module`, and where they are here; the first that is there is what jobs take. */
export const terraformEngines = [
  { name: 'tofu', program: testTool('tofu') ?? installed('tofu') },
  { name: 'terraform', program: installed('terraform') },
] as const

/** The PATH of this process with these engines, and no other engine. */
export function enginePath(folder: string, engines: Record<string, string | undefined>): string {
  const names = terraformEngines.map(({ name }) => name as string)
  const others = (process.env['PATH'] ?? '')
    .split(delimiter)
    .flatMap((from) =>
      (existsSync(from) ? readdirSync(from) : [])
        .filter((name) => !names.includes(name))
        .map((name) => [name, join(from, name)] as const),
    )
  // The first of a name wins on a PATH, the last in an object.
  return pathWith(folder, { ...Object.fromEntries(others.toReversed()), ...engines })
}

export function isInstalled(program: string, ...args: string[]): boolean {
  return spawnSync(program, args, { timeout: 60_000, stdio: 'ignore' }).status === 0
}
