import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { componentJobConfig, jsonObject, partName } from '@tenon/protocol'
import { z } from 'zod'
import { readConfig } from './config.ts'
import type { OperationContext } from './plugin.ts'

/** The part of an operation's configuration that the wrapper itself reads; the rest is the script's. */
const shellConfig = z.looseObject({
  inputs: jsonObject.default({}),
  secrets: z
    .array(z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/))
    .max(200)
    .default([]),
  dependencies: z.array(partName).max(200).default([]),
  component: jsonObject.default({}),
})

const SYSTEM_PATH = '/usr/local/bin:/usr/bin:/bin'

export interface ShellFolder {
  out: string
  env: Record<string, string>
}

/** The job API as files, so that a plugin can be written without any library. */
export async function prepareShellFolder(context: OperationContext): Promise<ShellFolder> {
  const config = readConfig(context.operation, shellConfig)
  const at = (...parts: string[]) => join(context.workDir, ...parts)
  for (const folder of ['bin', 'out', 'secrets', 'dependencies']) {
    await mkdir(at(folder), { recursive: true, mode: 0o700 })
  }
  await writePrivate(at('manifest.json'), toJson(context.manifest))
  await writePrivate(at('inputs.json'), toJson(config.inputs))
  const isWhole = componentJobConfig.safeParse(context.operation.config).success
  await writePrivate(at('config.json'), toJson(isWhole ? await context.rendered() : config.component))
  for (const secret of config.secrets) {
    await writePrivate(at('secrets', secret), await context.api.secret(secret))
  }
  for (const component of config.dependencies) {
    await writePrivate(at('dependencies', `${component}.json`), toJson(await context.api.outputs(component)))
  }
  await writeHostHelper(at('bin', 'tenon-host'), join(context.job.programs, 'tenon-host.mjs'))
  return { out: at('out'), env: environmentOf(context) }
}

/** Made from nothing but what is named here: the job's own token and address are no business of a script. */
export function environmentOf(context: OperationContext): Record<string, string> {
  const { baseEnv, job, operation, workDir } = context
  return {
    ...baseEnv,
    PATH: [join(workDir, 'bin'), dirname(process.execPath), baseEnv['PATH'] ?? SYSTEM_PATH].join(':'),
    TENON_OUT: join(workDir, 'out'),
    TENON_INPUTS: join(workDir, 'inputs.json'),
    TENON_CONFIG: join(workDir, 'config.json'),
    TENON_DEPENDENCIES: join(workDir, 'dependencies'),
    TENON_SECRETS: join(workDir, 'secrets'),
    TENON_MANIFEST: join(workDir, 'manifest.json'),
    TENON_OPERATION: operation.operation,
    ...(operation.component === null ? {} : { TENON_COMPONENT: operation.component }),
    ...(job.installId === null ? {} : { TENON_INSTALL_ID: job.installId }),
    ...(job.hostSocket === null ? {} : { TENON_HOST_SOCKET: job.hostSocket }),
  }
}

async function writeHostHelper(path: string, program: string): Promise<void> {
  const node = shellQuote(process.execPath)
  await writeFile(path, `#!/bin/sh\nexec ${node} ${shellQuote(program)} "$@"\n`)
  await chmod(path, 0o700)
}

async function writePrivate(path: string, content: string): Promise<void> {
  await writeFile(path, content, { mode: 0o600, flag: 'wx' })
}

function toJson(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`
}

function shellQuote(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`
}
