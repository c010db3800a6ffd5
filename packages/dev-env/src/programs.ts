import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'

/** Bundles the programs as they are now into a folder of their own below dist/, where they find node_modules. */
export async function buildPrograms(root: string): Promise<{ dist: string; remove(): void }> {
  mkdirSync(join(root, 'dist'), { recursive: true })
  const dist = mkdtempSync(join(root, 'dist', 'scenarios-'))
  const remove = () => rmSync(dist, { recursive: true, force: true })
  const script = `const { bundle } = await import(${JSON.stringify(join(root, 'scripts/build.mjs'))}); await bundle(undefined, ${JSON.stringify(dist)})`
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  const [code] = (await once(child, 'exit')) as [number | null]
  if (code === 0) return { dist, remove }
  remove()
  throw new Error('the programs could not be built')
}
