import { cp, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { MEDIA_TYPES, json, jobOutputs, pluginDescription } from '@tenon/protocol'
import { z } from 'zod'
import { gitSource } from '../build/config.ts'
import { componentOperation, type Work } from '../deploy/operation.ts'
import { complaintOf, runTool } from '../deploy/run-tool.ts'
import { clusterEnv } from '../kubernetes/cluster.ts'
import { PluginError } from '../sdk/errors.ts'
import type { JobOutputs } from '../sdk/job-api.ts'
import type { OperationResult, Plugin } from '../sdk/plugin.ts'
import { readUntrustedJson } from '../sdk/shell-results.ts'
import { build } from './build.ts'
import description from './plugin.json' with { type: 'json' }
import { sourceFolder } from './source-folder.ts'

const environment = z.record(
  z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'must be a variable name'),
  z.coerce.string(),
)
const step = z.looseObject({
  name: z.string().min(1).max(128),
  command: z.string().exactOptional(),
  inlineContents: z.string().exactOptional(),
  env: environment.default({}),
  source: z
    .discriminatedUnion('kind', [gitSource, z.looseObject({ kind: z.literal('folder') })])
    .exactOptional(),
})
const actionConfig = z.looseObject({
  steps: z.array(step).min(1).max(200),
  env: environment.default({}),
  enableKubeConfig: z.boolean().default(false),
})
type ActionConfig = z.infer<typeof actionConfig>
type Step = z.infer<typeof step>

const plainOutputs = z.record(z.string().max(128), json)
const MAX_OUTPUTS = 500

/** Steps in order, each a command or a script of the configuration; the first that fails ends the action. */
const actionPlugin: Plugin = {
  description: pluginDescription.parse(description),
  operations: {
    build,
    action: componentOperation(actionConfig, async (work): Promise<OperationResult> => {
      const outputsFile = join(work.workDir, 'outputs.json')
      const { steps } = work.component
      for (const [index, each] of steps.entries()) {
        work.log(`step ${index + 1} of ${steps.length}: ${each.name}`)
        await work.api.progress(each.name, index / steps.length)
        const problem = await runStep(work, each, index, outputsFile)
        if (problem === undefined) continue
        const message = `The step ${each.name} (${index + 1} of ${steps.length}) failed: ${problem}`
        return { ok: false, message, data: { step: each.name, index } }
      }
      const outputs = await readOutputs(work, outputsFile)
      const count = steps.length === 1 ? 'Its step' : `All ${steps.length} steps`
      const data = { steps: steps.map(({ name }) => name), outputs: Object.keys(outputs) }
      return { ok: true, message: `${count} succeeded.`, data, outputs }
    }),
  },
}
export default actionPlugin

/** Why it failed, in its own last words; undefined when it went well. */
async function runStep(
  work: Work<ActionConfig>,
  each: Step,
  index: number,
  outputsFile: string,
): Promise<string | undefined> {
  const cwd = join(work.workDir, 'steps', String(index + 1))
  await mkdir(cwd, { recursive: true, mode: 0o700 })
  await fillFolder(work, each, cwd)
  const env = { ...environmentOf(work, outputsFile), ...work.component.env, ...each.env }
  const timeoutMs = work.manifest.limits.timeoutSeconds * 1000
  const [program, ...args] = await commandOf(work, each, index)
  const end = await runTool(work, { program, args, cwd, env, timeoutMs, isLogged: true })
  return end.code === 0 ? undefined : `it ended with code ${end.code}: ${complaintOf(end)}`
}

/** A copy of its own for each step: what one leaves in its folder is not there for the next. */
async function fillFolder(work: Work<ActionConfig>, { name, source }: Step, cwd: string): Promise<void> {
  if (source?.kind !== 'git') return
  const artifact = await work.artifact('artifact', { artifactType: MEDIA_TYPES.action })
  try {
    await cp(join(artifact, sourceFolder(source)), cwd, { recursive: true })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    const message = `The build of the action has not what the step ${name} runs in: ${source.directory} of ${source.repo} at ${source.ref}.`
    const remedy = 'The app has changed since it was built: `tenon builds create`, then run it again.'
    throw new PluginError('artifact_invalid', message, remedy)
  }
}

async function commandOf(
  work: Work<ActionConfig>,
  each: Step,
  index: number,
): Promise<[string, ...string[]]> {
  const { inlineContents, command } = each
  if (inlineContents !== undefined) {
    const file = join(work.workDir, `step-${index + 1}`)
    const text = inlineContents.startsWith('#!') ? inlineContents : `#!/bin/sh\nset -e\n${inlineContents}`
    await writeFile(file, `${text}\n`, { mode: 0o700 })
    return [file]
  }
  if (command !== undefined) return ['/bin/sh', '-c', command]
  throw new PluginError(
    'config_invalid',
    `The step ${each.name} does nothing.`,
    'Give it inline_contents or a command.',
  )
}

function environmentOf(work: Work<ActionConfig>, outputsFile: string): Record<string, string> {
  const { install, app } = work.config
  return {
    TENON_OUTPUTS: outputsFile,
    // By this name existing actions know it.
    NUON_ACTIONS_OUTPUT_FILEPATH: outputsFile,
    TENON_INSTALL_ID: install.id,
    TENON_INSTALL_NAME: install.name,
    TENON_APP: app.name,
    ...(work.component.enableKubeConfig ? clusterEnv(work) : {}),
  }
}

/** JSON: values by name, or `{"value": …, "sensitive": true}` by name. */
async function readOutputs(work: Work<ActionConfig>, file: string): Promise<JobOutputs> {
  const value = (await readUntrustedJson(file)) ?? {}
  const full = jobOutputs.safeParse(value)
  const outputs = full.success ? full.data : plainOf(value)
  if (Object.keys(outputs).length > MAX_OUTPUTS)
    throw invalidOutputs(`it has more than ${MAX_OUTPUTS} outputs`)
  return outputs
}

function plainOf(value: unknown): JobOutputs {
  const plain = plainOutputs.safeParse(value)
  if (!plain.success) throw invalidOutputs('it is no JSON object')
  return Object.fromEntries(
    Object.entries(plain.data).map(([name, each]) => [name, { sensitive: false, value: each }]),
  )
}

function invalidOutputs(why: string): PluginError {
  const remedy = 'Write {"name": value} or {"name": {"value": ..., "sensitive": true}} to $TENON_OUTPUTS.'
  return new PluginError(
    'outputs_invalid',
    `What the action left in $TENON_OUTPUTS cannot be used: ${why}.`,
    remedy,
  )
}
