import { name } from '@tenon/protocol'
import { z } from 'zod'

/** The fields that this version acts on. The full set of files and fields replaces this module. */
export const metadataFile = z.looseObject({
  name: name.optional(),
  display_name: z.string().max(200).optional(),
  description: z.string().max(4000).optional(),
})

export const componentFile = z.looseObject({
  name,
  type: z.enum(['script']),
  dependencies: z.array(name).max(200).default([]),
  /** A folder, relative to this file or to the app's folder. */
  source: z.string().min(1).max(1000),
})
export type ComponentFile = z.infer<typeof componentFile>

/** What the loader takes for itself; everything else is the component type's own configuration. */
export const OWN_FIELDS: ReadonlySet<string> = new Set(['name', 'type', 'dependencies', 'source'])
