import { readFile } from 'node:fs/promises'
import { join, normalize } from 'node:path'
import { z } from 'zod'
import { PluginError } from '../sdk/errors.ts'

const inside = z
  .string()
  .refine((path) => !/^(\/|\.\.(\/|$))/.test(normalize(path)), 'must lie in the artifact')
const layout = z.looseObject({ module: inside, providers: inside })

/** Where in the artifact its build put the module and the mirror of the providers that it needs. */
export async function readLayout(artifact: string): Promise<{ module: string; providers: string }> {
  const text = await readFile(join(artifact, 'tenon.json'), 'utf8').catch(() => '{}')
  const parsed = layout.safeParse(JSON.parse(text))
  if (!parsed.success) {
    const message = 'The artifact does not say where its module is.'
    throw new PluginError('artifact_invalid', message, 'Build the component again.')
  }
  return { module: join(artifact, parsed.data.module), providers: join(artifact, parsed.data.providers) }
}
