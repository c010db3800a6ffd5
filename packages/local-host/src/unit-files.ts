import { createHash, randomUUID } from 'node:crypto'
import { mkdir, readdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { copyBundle } from './bundle.ts'
import { unitSpecSchema } from '@tenon/protocol/local-host'
import type { UnitSpec } from '@tenon/protocol/local-host'
import { isCode } from './errors.ts'

/** The desired state of one unit on disk. File contents stand beside it, in the version's own folder. */
export const desiredSchema = z.strictObject({
  format: z.literal(1),
  version: z.string().regex(/^[0-9a-f]{16}$/),
  /** The version to keep on disk beside the wanted one: the last that was seen healthy. */
  lastHealthy: z
    .string()
    .regex(/^[0-9a-f]{16}$/)
    .nullable(),
  spec: unitSpecSchema.omit({ files: true, bundlePath: true }).extend({ hasBundle: z.boolean() }),
})

export type Desired = z.infer<typeof desiredSchema>

export interface UnitPaths {
  folder: string
  desired: string
  process: string
  log: string
  data: string
  versions: string
}

export function unitPaths(folder: string): UnitPaths {
  return {
    folder,
    desired: join(folder, 'unit.json'),
    process: join(folder, 'process'),
    log: join(folder, 'log'),
    data: join(folder, 'data'),
    versions: join(folder, 'versions'),
  }
}

export function versionPaths(paths: UnitPaths, version: string): { files: string; bundle: string } {
  const folder = join(paths.versions, version)
  return { files: join(folder, 'files'), bundle: join(folder, 'bundle') }
}

/** Puts files and bundle in place under a name made of all that the unit is: same name, nothing changed. */
export async function stageVersion(
  paths: UnitPaths,
  spec: UnitSpec,
  lastHealthy: string | null,
): Promise<Desired> {
  const { files, bundlePath, ...rest } = spec
  await mkdir(paths.data, { recursive: true, mode: 0o700 })
  await mkdir(paths.versions, { recursive: true, mode: 0o700 })
  const staging = join(paths.versions, `.staging-${randomUUID()}`)
  try {
    await mkdir(join(staging, 'files'), { recursive: true, mode: 0o700 })
    for (const [name, content] of Object.entries(files)) {
      await writeFile(join(staging, 'files', name), content, { mode: 0o600, flag: 'wx' })
    }
    const bundle = bundlePath === undefined ? null : await copyBundle(bundlePath, join(staging, 'bundle'))
    const version = versionOf({ ...rest, files, bundle })
    await moveIntoPlace(staging, join(paths.versions, version))
    return { format: 1, version, lastHealthy, spec: { ...rest, hasBundle: bundle !== null } }
  } finally {
    await rm(staging, { recursive: true, force: true })
  }
}

export async function pruneVersions(paths: UnitPaths, keep: readonly (string | null)[]): Promise<void> {
  for (const name of await readdir(paths.versions)) {
    if (!keep.includes(name)) await rm(join(paths.versions, name), { recursive: true, force: true })
  }
}

async function moveIntoPlace(staging: string, target: string): Promise<void> {
  try {
    await rename(staging, target)
  } catch (error) {
    if (!isCode(error, 'ENOTEMPTY') && !isCode(error, 'EEXIST')) throw error
  }
}

function versionOf(value: unknown): string {
  return createHash('sha256').update(sortedJson(value)).digest('hex').slice(0, 16)
}

function sortedJson(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    inner !== null && typeof inner === 'object' && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  )
}
