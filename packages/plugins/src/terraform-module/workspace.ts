import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Json } from '@tenon/core'
import { MEDIA_TYPES } from '@tenon/protocol'
import type { Work } from '../deploy/operation.ts'
import { runTool, toolFailed, type ToolEnd, type ToolRun } from '../deploy/run-tool.ts'
import { openStateBridge } from '../sdk/state-bridge.ts'
import type { TerraformConfig } from './config.ts'
import { readLayout } from './layout.ts'
import { findEngine, type Engine } from './version.ts'
import { declaredTypes, typedVars } from './variables.ts'

export interface Workspace {
  folder: string
  engine: Engine
  /** Every file with variables, in the order in which a later one wins. */
  varFiles: string[]
  run(args: string[], options?: Partial<ToolRun>): Promise<ToolEnd>
  /** As `run`; a code outside `codes` is a failure. */
  must(args: string[], options?: Partial<ToolRun> & { codes?: number[] }): Promise<ToolEnd>
}

/** The module of this job, initialised from its own providers, its state in the install; closed when done. */
export async function withWorkspace<T>(
  work: Work<TerraformConfig>,
  use: (workspace: Workspace) => Promise<T>,
): Promise<T> {
  const artifact = await work.artifact('artifact', { artifactType: MEDIA_TYPES.terraformModule })
  const { module: folder, providers } = await readLayout(artifact)
  const varFiles = await writeVariables(work, folder)
  await writeFile(join(folder, 'tenon_backend_override.tf'), 'terraform {\n  backend "http" {}\n}\n')
  const settings = { ...(await cliSettings(work, providers)), ...ownEnv(work.component) }
  const where = { cwd: folder, env: settings }
  const engine = await findEngine(work, await readdir(providers), work.component.terraform_version, where)
  const { program } = engine
  const bridge = await openStateBridge({ api: work.api, log: work.log })
  try {
    const env = { ...settings, ...bridge.env(work.name) }
    const run: Workspace['run'] = (args, options = {}) =>
      runTool(work, {
        program,
        args,
        cwd: folder,
        env,
        isLogged: true,
        stopWith: 'SIGINT',
        ...longest(work),
        ...options,
      })
    const must: Workspace['must'] = async (args, { codes = [0], ...options } = {}) => {
      const end = await run(args, options)
      if (end.code !== null && codes.includes(end.code)) return end
      throw toolFailed({ program, args }, end)
    }
    await must(['init', '-input=false', '-no-color'])
    return await use({ folder, engine, varFiles, run, must })
  } finally {
    await bridge.close()
  }
}

/** Terraform is told to stop by the job's own limit, not by one of ours. */
function longest(work: Work<TerraformConfig>): { timeoutMs: number } {
  return { timeoutMs: work.manifest.limits.timeoutSeconds * 1000 }
}

/** Variables are files that only this job can read: arguments and environments show in process lists. */
async function writeVariables(work: Work<TerraformConfig>, folder: string): Promise<string[]> {
  const at = join(work.workDir, 'variables')
  await mkdir(at, { recursive: true, mode: 0o700 })
  const files: string[] = []
  const write = async (name: string, content: string) => {
    files.push(join(at, name))
    await writeFile(join(at, name), content, { mode: 0o600 })
  }
  for (const [index, { contents }] of work.component.var_file.entries()) {
    await write(`${index + 1}.${isJson(contents) ? 'tfvars.json' : 'tfvars'}`, `${contents}\n`)
  }
  const types = declaredTypes(await sourcesOf(folder))
  const own = typedVars(work.component.vars, types)
  await write('component.tfvars.json', JSON.stringify(own))
  const overrides = work.overrides['tf_vars']
  if (isObject(overrides)) await write('install.tfvars.json', JSON.stringify(typedVars(overrides, types)))
  return files
}

async function sourcesOf(folder: string): Promise<string[]> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.tf'))
  return Promise.all(names.map((name) => readFile(join(folder, name), 'utf8')))
}

/** Providers come from the artifact and from nowhere else; nothing of the machine's own settings counts. */
async function cliSettings(work: Work<TerraformConfig>, mirror: string): Promise<Record<string, string>> {
  await mkdir(mirror, { recursive: true })
  const file = join(work.workDir, 'terraform.rc')
  const content = [
    'disable_checkpoint = true',
    'provider_installation {',
    `  filesystem_mirror {\n    path = ${JSON.stringify(mirror)}\n    include = ["*/*/*"]\n  }`,
    '  direct {\n    exclude = ["*/*/*"]\n  }',
    '}\n',
  ]
  await writeFile(file, content.join('\n'), { mode: 0o600 })
  return { TF_CLI_CONFIG_FILE: file, CHECKPOINT_DISABLE: '1', TF_IN_AUTOMATION: '1', TF_INPUT: '0' }
}

function ownEnv(component: TerraformConfig): Record<string, string> {
  return Object.fromEntries(Object.entries(component.env_vars).map(([name, value]) => [name, String(value)]))
}

export function varArgs({ varFiles }: Workspace): string[] {
  return varFiles.map((file) => `-var-file=${file}`)
}

function isJson(text: string): boolean {
  return text.trimStart().startsWith('{')
}

function isObject(value: Json | undefined): value is { [key: string]: Json } {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
