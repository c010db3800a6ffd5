import { z } from 'zod'

/** The contract of the local sandbox's supervisor: HTTP over unix sockets, JSON both ways. */

export const LOCAL_HOST_ERROR_CODES = [
  'invalid_request', // the body or a query parameter has the wrong shape
  'invalid_name', // a name in the path is not a plain name
  'body_too_large', // more than MAX_BODY_BYTES
  'not_found', // no such route
  'install_not_found',
  'service_not_found',
  'bundle_invalid', // the folder to copy is missing, too large, or points outside itself
  'port_unavailable', // no free loopback port is left, or the install has too many
  'closing', // the local-host or the install is being stopped or removed
  'already_running', // another local-host serves this folder
  'runtime_folder', // the folder for the sockets cannot be trusted
  'internal', // a fault of the local-host itself; its log says more
  'unreachable', // client side: nobody answers at the socket
  'bad_answer', // client side: the answer does not fit this contract
] as const

export type LocalHostErrorCode = (typeof LOCAL_HOST_ERROR_CODES)[number]

export const MAX_BODY_BYTES = 1024 * 1024
export const MAX_WAIT_SECONDS = 600

const noNul = z.string().refine((text) => !text.includes('\0'), 'must not hold a NUL byte')

export const installIdSchema = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/)
export const unitNameSchema = z.string().regex(/^[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?$/)
export const portNameSchema = z.string().regex(/^[a-z0-9](?:[a-z0-9._-]{0,126}[a-z0-9])?$/)
const fileNameSchema = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/)
const envNameSchema = z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/)

export const healthSchema = z.union([
  z.literal('none'),
  z.strictObject({
    http: z.strictObject({
      port: z.int().min(1).max(65_535),
      path: z
        .string()
        .max(1024)
        .regex(/^\/[!-~]*$/),
    }),
    intervalSeconds: z.number().min(0.1).max(3600).default(5),
    timeoutSeconds: z.number().min(0.1).max(300).default(2),
  }),
])

/**
 * What should run. `{files}`, `{data}` and `{bundle}` in `command`, `env` and `cwd` become the unit's own
 * folders: files given here, data that outlives every version, and the copy of `bundlePath`.
 */
export const unitSpecSchema = z.strictObject({
  command: z.array(noNul.max(32_768)).min(1).max(256),
  env: z.record(envNameSchema, noNul).default({}),
  /** Absolute, or relative to the bundle. The default is the bundle, without one the data folder. */
  cwd: noNul.max(4096).optional(),
  /** Small files, kept with mode 0600: the place for secrets, which belong in neither argv nor env. */
  files: z.record(fileNameSchema, z.string()).default({}),
  /** An absolute path; the folder is copied, so it may vanish after the call. */
  bundlePath: noNul
    .max(4096)
    .refine((path) => path.startsWith('/'), 'must be an absolute path')
    .optional(),
  health: healthSchema,
  restart: z.literal('always').default('always'),
  stopGraceSeconds: z.number().min(0).max(600).default(10),
})

export const unitStateSchema = z.enum(['starting', 'healthy', 'unhealthy', 'stopped', 'backoff'])

export const lastExitSchema = z.object({
  /** Both null: the process was adopted from an earlier local-host, so its code is unknown. */
  code: z.int().nullable(),
  signal: z.string().nullable(),
  error: z.string().nullable(),
  at: z.iso.datetime(),
})

export const unitStatusSchema = z.object({
  name: z.string(),
  state: unitStateSchema,
  since: z.iso.datetime(),
  version: z.string().nullable(),
  pid: z.int().nullable(),
  restarts: z.int(),
  lastExit: lastExitSchema.nullable(),
  lastHealthError: z.string().nullable(),
})

/** A unit that did not get healthy is a result, not an error: the caller decides what follows. */
export const applyResultSchema = z.object({
  outcome: z.enum(['healthy', 'crashed', 'probe_failed', 'superseded', 'not_waited']),
  /** False: this very version was wanted already, and nothing was touched. */
  changed: z.boolean(),
  reason: z.string().nullable(),
  logTail: z.array(z.string()),
  unit: unitStatusSchema,
})

export const putInstallSchema = z.strictObject({
  units: z.record(unitNameSchema, unitSpecSchema),
})

export const installSchema = z.object({
  id: z.string(),
  socketPath: z.string(),
  units: z.array(unitStatusSchema),
  services: z.array(unitStatusSchema),
  /** What was found broken on disk and set aside. */
  problems: z.array(z.string()),
})

export const putInstallResultSchema = z.object({
  install: installSchema,
  units: z.record(z.string(), applyResultSchema),
})

export const installListSchema = z.object({ installs: z.array(installSchema) })
export const serviceListSchema = z.object({ services: z.array(unitStatusSchema) })
export const logsSchema = z.object({ lines: z.array(z.string()) })
export const allocatePortSchema = z.strictObject({ name: portNameSchema })
export const portSchema = z.object({ name: z.string(), port: z.int() })
export const removedSchema = z.object({ removed: z.boolean() })

export const errorAnswerSchema = z.object({
  error: z.object({ code: z.enum(LOCAL_HOST_ERROR_CODES), message: z.string(), remedy: z.string() }),
})

export type UnitSpec = z.infer<typeof unitSpecSchema>
export type UnitSpecInput = z.input<typeof unitSpecSchema>
export type UnitState = z.infer<typeof unitStateSchema>
export type UnitStatus = z.infer<typeof unitStatusSchema>
export type ApplyResult = z.infer<typeof applyResultSchema>
export type InstallStatus = z.infer<typeof installSchema>
export type PutInstallResult = z.infer<typeof putInstallResultSchema>
export type Health = z.infer<typeof healthSchema>
