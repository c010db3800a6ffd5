import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
} from 'node:fs'
import { join } from 'node:path'

/** What nobody asked for in this time is made anew when somebody does. */
const KEEP_MS = 86_400_000

export interface Programs {
  dist: string
  remove(): void
}

/** The programs as they are now. All who ask while nothing changes share one folder: nobody may write there. */
export async function buildPrograms(root: string): Promise<Programs> {
  const { madeFrom } = (await import(join(root, 'scripts/made-from.mjs'))) as {
    madeFrom(root: string): string
  }
  const from = madeFrom(root)
  const shared = join(root, 'dist', `programs-${from.slice(0, 16)}`)
  if (!existsSync(shared)) {
    const own = await placePrograms(root, (dist) => bundleInto(root, dist))
    if (madeFrom(root) !== from) return own
    share(own, shared)
  }
  utimesSync(shared, new Date(), new Date())
  return { dist: shared, remove: () => undefined }
}

/** A folder below dist/, where programs find node_modules. */
export async function placePrograms(
  root: string,
  fill: (dist: string) => Promise<void> | void,
): Promise<Programs> {
  removeOld(join(root, 'dist'))
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

/** Two may have made the same at the same time: the first one's is taken. */
function share(own: Programs, shared: string): void {
  try {
    renameSync(own.dist, shared)
  } catch (error) {
    if (!existsSync(shared)) throw error
    own.remove()
  }
}

function removeOld(dist: string): void {
  mkdirSync(dist, { recursive: true })
  for (const name of readdirSync(dist).filter((each) => /^(programs|scenarios)-/.test(each))) {
    const folder = join(dist, name)
    const { mtimeMs } = statSync(folder, { throwIfNoEntry: false }) ?? { mtimeMs: Date.now() }
    if (Date.now() - mtimeMs > KEEP_MS) rmSync(folder, { recursive: true, force: true })
  }
}
