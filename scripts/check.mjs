// Everything that can be said of the code without running it: one line per check, the output only of those that fail.
import { spawn } from 'node:child_process'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ensureInstalled } from './ensure-installed.mjs'

const root = dirname(dirname(fileURLToPath(import.meta.url)))

const CHECKS = [
  ['types', 'tsc', ['-p', '.']],
  ['lint and sizes', 'oxlint', ['--type-aware', '--quiet']],
  ['format', 'oxfmt', ['--check']],
  ['unused code', 'knip', ['--no-progress', '--no-config-hints']],
  [
    'boundaries and rooms',
    'vitest',
    ['run', 'test/boundaries.test.ts', 'test/rooms.test.ts', '--reporter=dot'],
  ],
]

ensureInstalled()
const failed = []
for (const [name, program, args] of CHECKS) {
  const started = Date.now()
  const { code, output } = await run(program, args)
  const seconds = ((Date.now() - started) / 1000).toFixed(1)
  console.log(`${code === 0 ? 'ok  ' : 'FAIL'}  ${name.padEnd(20)} ${seconds} s`)
  if (code === 0) continue
  failed.push(name)
  console.log(output.trimEnd())
}
if (failed.length > 0)
  console.log(`\n${failed.length} of ${CHECKS.length} checks failed: ${failed.join(', ')}`)
process.exitCode = failed.length > 0 ? 1 : 0

function run(program, args) {
  return new Promise((done) => {
    const child = spawn(join(root, 'node_modules', '.bin', program), args, { cwd: root })
    let output = ''
    child.stdout.on('data', (chunk) => (output += chunk))
    child.stderr.on('data', (chunk) => (output += chunk))
    child.on('error', (error) => done({ code: 1, output: error.message }))
    child.on('close', (code) => done({ code: code ?? 1, output }))
  })
}
