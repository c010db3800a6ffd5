import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'smol-toml'
import { loadApp } from '../app-config/load-app.ts'

/** Run as a program of its own, as the CLI is: how long an app takes to load, and to be read and parsed alone. */
const [folder = '', ...names] = process.argv.slice(2)

async function best(run: () => unknown): Promise<number> {
  const times: number[] = []
  for (let i = 0; i < 10; i++) {
    const started = performance.now()
    await run()
    times.push(performance.now() - started)
  }
  return Math.min(...times)
}

const bare = await best(() => names.map((name) => parse(readFileSync(join(folder, name), 'utf8'))))
const loading = await best(() => loadApp(folder))
const { app } = await loadApp(folder)
process.stdout.write(JSON.stringify({ bare, loading, components: app.components.length }))
