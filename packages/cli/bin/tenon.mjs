#!/usr/bin/env node
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const bundle = new URL('../../../dist/cli.mjs', import.meta.url)

if (existsSync(bundle)) {
  await import(bundle.href)
} else {
  process.stderr.write(
    `error: tenon has not been built yet: ${fileURLToPath(bundle)} is absent\n` +
      'next: run `npm run build` in the clone (`npm start` builds too)\n',
  )
  process.exitCode = 7
}
