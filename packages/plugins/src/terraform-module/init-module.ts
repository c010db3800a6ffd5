import { readFile, rm, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { z } from 'zod'
import { lentFile } from '../build/lent.ts'
import { findTool, runTool, toolMissing } from '../build/run-tool.ts'
import type { OperationContext } from '../sdk/plugin.ts'
import {
  engineOrder,
  foreignProviders,
  lockedHosts,
  readVersion,
  shownEngine,
  type EngineId,
  type EngineName,
} from './engine.ts'

export interface InitializedModule {
  engine: EngineId
  /** Some module was fetched from elsewhere and has to travel along. */
  hasRemoteModules: boolean
  /** Some module lies beside the source's folder, by a path that begins with `..`. */
  reachesOut: boolean
}

const manifest = z.looseObject({
  Modules: z.array(z.looseObject({ Key: z.string(), Source: z.string(), Dir: z.string() })),
})

/** What work with the module leaves behind; a state is nobody's source, and one that is there would be read. */
const LEFT_OVER = ['.terraform', 'terraform.tfstate', 'terraform.tfstate.backup', 'terraform.tfstate.d']

/** Fetches modules and providers as the engine itself does, and writes what it chose into the lock file. */
export async function initModule(context: OperationContext, folder: string): Promise<InitializedModule> {
  const lock = await readFile(join(folder, '.terraform.lock.hcl'), 'utf8').catch(() => undefined)
  const hosts = lockedHosts(lock ?? '')
  const program = await findTool(context, ...engineOrder(hosts))
  if (program === undefined) throw toolMissing('A terraform module', 'tofu or terraform')
  if (lock === undefined) {
    context.log(
      'note: the source has no .terraform.lock.hcl; providers are pinned by this build, not by the source',
    )
  }
  for (const name of LEFT_OVER) await rm(join(folder, name), { recursive: true, force: true })
  const env = await terraformEnv(context)
  const told = await runTool(context, { program, args: ['version', '-json'], cwd: folder, env })
  const engine: EngineId = { name: basename(program) as EngineName, version: readVersion(told) }
  context.log(`initializing the module with ${shownEngine(engine)}`)
  const note = foreignProviders(engine.name, hosts)
  if (note !== undefined) context.log(note)
  const args = ['init', '-backend=false', '-input=false', '-no-color']
  const timeoutMs = context.manifest.limits.timeoutSeconds * 1000
  await runTool(context, { program, args, cwd: folder, env, timeoutMs, isLogged: true })
  return { engine, ...(await readModules(folder)) }
}

/** Nothing of the machine's own settings counts, except the CLI configuration that was lent. */
async function terraformEnv(context: OperationContext): Promise<Record<string, string>> {
  const file = join(context.workDir, 'terraform.rc')
  await writeFile(file, 'disable_checkpoint = true\n')
  return {
    HOME: context.workDir,
    TF_CLI_CONFIG_FILE: (await lentFile(context, 'terraform.rc')) ?? file,
    TF_IN_AUTOMATION: '1',
    CHECKPOINT_DISABLE: '1',
    GIT_TERMINAL_PROMPT: '0',
    GIT_CONFIG_NOSYSTEM: '1',
  }
}

async function readModules(folder: string): Promise<Omit<InitializedModule, 'engine'>> {
  const text = await readFile(join(folder, '.terraform/modules/modules.json'), 'utf8').catch(() => undefined)
  if (text === undefined) return { hasRemoteModules: false, reachesOut: false }
  const { Modules: modules } = manifest.parse(JSON.parse(text))
  return {
    hasRemoteModules: modules.some(({ Key, Source }) => Key !== '' && !/^\.\.?(?:\/|$)/.test(Source)),
    reachesOut: modules.some(({ Dir }) => Dir === '..' || Dir.startsWith('../')),
  }
}
