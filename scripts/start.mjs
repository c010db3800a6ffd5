// npm start: install what is missing, build, and do the main job.
import { ensureInstalled } from './ensure-installed.mjs'

await ensureInstalled()
const { bundle } = await import('./build.mjs')
await bundle()
await import('../dist/dev-env.mjs')
