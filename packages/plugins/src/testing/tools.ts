import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, symlinkSync } from 'node:fs'
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

/** The engines of `terraform_module` that are at hand, by name. */
export function terraformEngines(): { name: 'tofu' | 'terraform'; program: string }[] {
  const tofu = testTool('tofu') ?? installed('tofu')
  const terraform = installed('terraform')
  return [
    ...(tofu === undefined ? [] : [{ name: 'tofu' as const, program: tofu }]),
    ...(terraform === undefined ? [] : [{ name: 'terraform' as const, program: terraform }]),
  ]
}

/** What a test's title says of engines that are absent. */
export function absentEngines(): string {
  const there = terraformEngines().map(({ name }) => name as string)
  const absent = ['tofu', 'terraform'].filter((name) => !there.includes(name))
  return absent.length === 0 ? '' : ` (skipped: ${absent.join(' and ')}, not here)`
}

/** A PATH with one engine, and what its provisioners and modules run. */
export function enginePath(folder: string, name: string, program: string): string {
  const others = ['sh', 'sleep', 'git', 'cat'].map((each) => [each, installed(each)] as const)
  return pathWith(folder, { ...Object.fromEntries(others), [name]: program })
}

export function isInstalled(program: string, ...args: string[]): boolean {
  return spawnSync(program, args, { timeout: 60_000, stdio: 'ignore' }).status === 0
}
