import { z } from 'zod'
import type { OperationResult } from '../sdk/plugin.ts'
import type { ImageOutputs } from './images.ts'
import type { Work } from './operation.ts'

export const service = z.looseObject({
  namespace: z.string().default(''),
  replicas: z.coerce.number().int().min(0).max(1000).default(1),
  port: z.coerce.number().int().min(1).max(65_535).default(8080),
  health_path: z.string().startsWith('/').exactOptional(),
  command: z.array(z.string()).exactOptional(),
  env: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])).default({}),
})
export type Service = z.infer<typeof service>

/** An image that runs by itself, on one kind of compute. */
export interface ImageService {
  plan(): Promise<OperationResult>
  deploy(): Promise<OperationResult>
  status(): Promise<OperationResult>
  destroy(): Promise<OperationResult>
  logs(): Promise<OperationResult>
  debug(): Promise<OperationResult>
}

export interface ServiceParts {
  work: Work<unknown>
  wanted: Service
  /** Asked only where the operation needs it: a destroy may be of a build that is gone. */
  image: () => ImageOutputs
}

export function envOf({ env }: Service): Record<string, string> {
  return Object.fromEntries(Object.entries(env).map(([key, value]) => [key, String(value)]))
}
