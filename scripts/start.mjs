// npm start: install what is missing, build, and do the main job.
import { ensureInstalled } from './ensure-installed.mjs'

await ensureInstalled()
const { bundleWhatChanged } = await import('./build.mjs')
await bundleWhatChanged()
await import('../dist/dev-env.mjs')
