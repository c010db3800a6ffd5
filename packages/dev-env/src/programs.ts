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

/**
 * The programs as they are now, bundled into a folder of their own below dist/, where they find node_modules. All who ask
 * while nothing changes share one: nobody may write there.
 */
export async function buildPrograms(root: string): Promise<{ dist: string; remove(): void }> {
  const { madeFrom } = (await import(join(root, 'scripts/made-from.mjs'))) as {
    madeFrom(root: string): string
  }
  const from = madeFrom(root)
  const shared = join(root, 'dist', `programs-${from.slice(0, 16)}`)
  if (!existsSync(shared)) {
    const own = await bundle(root)
    if (madeFrom(root) !== from)
      return { dist: own, remove: () => rmSync(own, { recursive: true, force: true }) }
    share(own, shared)
  }
  utimesSync(shared, new Date(), new Date())
  return { dist: shared, remove: () => undefined }
}

async function bundle(root: string): Promise<string> {
  removeOld(join(root, 'dist'))
  const dist = mkdtempSync(join(root, 'dist', 'scenarios-'))
  const script = `const { bundle } = await import(${JSON.stringify(join(root, 'scripts/build.mjs'))}); await bundle(undefined, ${JSON.stringify(dist)})`
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  const [code] = (await once(child, 'exit')) as [number | null]
  if (code === 0) return dist
  rmSync(dist, { recursive: true, force: true })
  throw new Error('the programs could not be built')
}

/** Two may have made the same at the same time: the first one's is taken. */
function share(own: string, shared: string): void {
  try {
    renameSync(own, shared)
  } catch (error) {
    if (!existsSync(shared)) throw error
    rmSync(own, { recursive: true, force: true })
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
