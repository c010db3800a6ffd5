import { execFileSync, spawnSync } from 'node:child_process'
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
} from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { bundleInto, placePrograms, type Programs } from '../../packages/dev-env/src/programs.ts'

const cache = join(homedir(), '.cache/tenon-skew')

/** Why a commit's programs cannot be had here; for scripts/run-tests.mjs too, since reporters count what is skipped without a name. */
export function whyAbsent(root: string, commit: string): string | undefined {
  const found = spawnSync('git', ['-C', root, 'cat-file', '-e', `${commit}^{commit}`], { stdio: 'ignore' })
  if (found.status === 0) return undefined
  const [name, why] = [`commit ${commit.slice(0, 7)}`, 'not in this clone: git fetch --unshallow']
  const told = process.env['TENON_TEST_ABSENT']
  if (told) appendFileSync(told, `${JSON.stringify([name, why])}\n`)
  return `${name} is ${why}`
}

/** The programs of a commit, bundled by its own script once per machine. */
export async function earlierPrograms(root: string, commit: string): Promise<Programs> {
  const kept = join(cache, commit)
  if (!existsSync(kept)) await bundleCommit(root, commit, kept)
  return placePrograms(root, (dist) => cpSync(kept, dist, { recursive: true }))
}

async function bundleCommit(root: string, commit: string, kept: string): Promise<void> {
  mkdirSync(cache, { recursive: true })
  const making = mkdtempSync(join(cache, 'making-'))
  try {
    const source = join(making, 'source')
    mkdirSync(source)
    const archive = execFileSync('git', ['-C', root, 'archive', commit], { maxBuffer: 1 << 30 })
    execFileSync('tar', ['-x', '-C', source], { input: archive })
    if (fitsToday(root, source)) linkPackages(root, source)
    else execFileSync('npm', ['ci', '--ignore-scripts', '--no-audit'], { cwd: source, stdio: 'inherit' })
    const dist = join(making, 'dist')
    await bundleInto(source, dist)
    moveOnce(dist, kept)
  } finally {
    rmSync(making, { recursive: true, force: true })
  }
}

/** Another run may have been faster; what it made is the same. */
function moveOnce(from: string, to: string): void {
  try {
    renameSync(from, to)
  } catch (error) {
    if (!existsSync(to)) throw error
  }
}

/** Whether every package that its programs are made of is here, in the same version. */
function fitsToday(root: string, source: string): boolean {
  const today = packagesOf(root)
  return [...packagesOf(source)].every(([path, version]) => today.get(path) === version)
}

interface Lock {
  packages: Record<string, { version?: string; link?: true; dev?: true }>
}

function packagesOf(root: string): Map<string, string | undefined> {
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as Lock
  const needed = Object.entries(packages).filter(
    ([path, { link, dev }]) => path.startsWith('node_modules/') && !link && !dev,
  )
  return new Map(needed.map(([path, { version }]) => [path, version]))
}

/** Packages of others are today's; ours are its own. */
function linkPackages(root: string, source: string): void {
  const target = join(source, 'node_modules')
  mkdirSync(join(target, '@tenon'), { recursive: true })
  for (const name of readdirSync(join(root, 'node_modules')))
    if (name !== '@tenon') symlinkSync(join(root, 'node_modules', name), join(target, name))
  for (const name of readdirSync(join(source, 'packages')))
    symlinkSync(join(source, 'packages', name), join(target, '@tenon', name))
}
