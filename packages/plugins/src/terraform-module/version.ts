import { basename } from 'node:path'
import { z } from 'zod'
import { findTool, runToolOk, type ToolContext } from '../deploy/run-tool.ts'
import { PluginError } from '../sdk/errors.ts'

const versionAnswer = z.looseObject({ terraform_version: z.string() })

/** `tofu` where there is one, else `terraform`, in a version that does what the component asks for. */
export async function findTerraform(
  context: ToolContext,
  wanted: string,
  where: { cwd: string; env: Record<string, string> },
): Promise<string> {
  const program = await findTool(context, 'tofu', 'terraform')
  const text = await runToolOk(context, { program, args: ['version', '-json'], ...where, timeoutMs: 60_000 })
  const { terraform_version: there } = versionAnswer.parse(JSON.parse(text))
  const tool = basename(program)
  const fit = fitOf(there, wanted)
  if (fit === 'unfit') {
    const message = `The component asks for terraform ${wanted}, and this job has ${tool} ${there}.`
    const remedy = `Set terraform_version to ${there}, or use a job image that has ${wanted}.`
    throw new PluginError('tool_unfit', message, remedy)
  }
  if (fit === 'newer') context.log(`${tool} ${there} is used; the component asks for ${wanted}`)
  else context.log(`${tool} ${there}`)
  return program
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
