import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'smol-toml'
import { loadApp } from '../app-config/load-app.ts'

/** Run as a program of its own, as the CLI is: how long an app takes to load, and to be read and parsed alone. */
const [folder = '', ...names] = process.argv.slice(2)

async function timed(run: () => unknown): Promise<number> {
  const started = performance.now()
  await run()
  return performance.now() - started
}

// By turns and the best of each, for a while: a busy machine slows either now and then, not always.
let [bare, loading] = [Infinity, Infinity]
for (let round = 0; round < 40 && (round < 10 || loading > 5 * bare); round++) {
  bare = Math.min(
    bare,
    await timed(() => names.map((name) => parse(readFileSync(join(folder, name), 'utf8')))),
  )
  loading = Math.min(loading, await timed(() => loadApp(folder)))
}
const { app } = await loadApp(folder)
process.stdout.write(JSON.stringify({ bare, loading, components: app.components.length }))
