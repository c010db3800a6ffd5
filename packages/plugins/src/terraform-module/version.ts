import { basename } from 'node:path'
import { findTool, runToolOk, type ToolContext } from '../deploy/run-tool.ts'
import { PluginError } from '../sdk/errors.ts'
import { engineOrder, foreignProviders, readVersion, type EngineId, type EngineName } from './engine.ts'

export interface Engine extends EngineId {
  program: string
}

/** The engine for modules whose providers come from these hosts, in a version that does what the component asks for. */
export async function findEngine(
  context: ToolContext,
  providerHosts: readonly string[],
  wanted: string,
  where: { cwd: string; env: Record<string, string> },
): Promise<Engine> {
  const program = await findTool(context, ...engineOrder(providerHosts))
  const text = await runToolOk(context, { program, args: ['version', '-json'], ...where, timeoutMs: 60_000 })
  const there = readVersion(text)
  const name = basename(program) as EngineName
  const fit = fitOf(there, wanted)
  if (fit === 'unfit') {
    const message = `The component asks for terraform ${wanted}, and this job has ${name} ${there}.`
    const remedy = `Set terraform_version to ${there}, or use a job image that has ${wanted}.`
    throw new PluginError('tool_unfit', message, remedy)
  }
  if (fit === 'newer') context.log(`${name} ${there} is used; the component asks for ${wanted}`)
  else context.log(`${name} ${there}`)
  const note = foreignProviders(name, providerHosts)
  if (note !== undefined) context.log(note)
  return { program, name, version: there }
}

/** Within a major version a later minor reads what an earlier one wrote; never the other way round. */
export function fitOf(there: string, wanted: string): 'same' | 'newer' | 'unfit' {
  const want = numbers(wanted)
  const have = numbers(there)
  if (want === undefined || have === undefined)
    return wanted.trim() === '' || wanted === 'latest' ? 'same' : 'unfit'
  if (have.major !== want.major || have.minor < (want.minor ?? 0)) return 'unfit'
  return have.minor === (want.minor ?? have.minor) ? 'same' : 'newer'
}

function numbers(version: string): { major: number; minor: number } | undefined {
  const match = /^\s*(?:[~^>=]+\s*)?v?(\d+)(?:\.(\d+))?/.exec(version)
  return match === null ? undefined : { major: Number(match[1]), minor: Number(match[2] ?? 0) }
}
