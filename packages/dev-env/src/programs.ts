import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'

export interface Programs {
  dist: string
  remove(): void
}

/** Bundles the programs as they are now into a folder of their own. */
export function buildPrograms(root: string): Promise<Programs> {
  return placePrograms(root, (dist) => bundleInto(root, dist))
}

/** A folder below dist/, where programs find node_modules. */
export async function placePrograms(
  root: string,
  fill: (dist: string) => Promise<void> | void,
): Promise<Programs> {
  mkdirSync(join(root, 'dist'), { recursive: true })
  const dist = mkdtempSync(join(root, 'dist', 'scenarios-'))
  const remove = () => rmSync(dist, { recursive: true, force: true })
  try {
    await fill(dist)
  } catch (error) {
    remove()
    throw error
  }
  return { dist, remove }
}

/** By the script of that source itself. */
export async function bundleInto(source: string, dist: string): Promise<void> {
  const script = `const { bundle } = await import(${JSON.stringify(join(source, 'scripts/build.mjs'))}); await bundle(undefined, ${JSON.stringify(dist)})`
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  const [code] = (await once(child, 'exit')) as [number | null]
  if (code !== 0) throw new Error(`the programs of ${source} could not be built`)
}
