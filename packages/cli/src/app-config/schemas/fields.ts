import { EGRESS_HOST, isEgressHost, isSpecialEgressHost } from '@tenon/core'
import { partName } from '@tenon/protocol'
import { Cron } from 'croner'
import { z } from 'zod'

/**
 * What becomes of a field: `acts`: something does what it says; `carried`: kept with the app's version, for what
 * comes later; `warned`: an older spelling or something that is set aside, said whenever it is used.
 */
export type Mark = 'acts' | 'carried' | 'warned'

export interface FieldMeta {
  description: string
  tenon: Mark
  /** What to write instead, or why it is set aside. */
  note?: string
  /** Older names of a value, with the one that is meant. */
  older?: Readonly<Record<string, string>>
  /** Values that load and that nothing acts on, each with why. */
  idleValues?: Readonly<Record<string, string>>
  /** Its value may name a file of the app's folder, whose content is then the value. */
  file?: true
  /** An address in it is left to the build, which fetches what is there. */
  atBuild?: true
  /** That file may be missing: it is only warned of, and the value stays what it is. */
  mayMiss?: true
  /** Its text has braces of its own kind. */
  plain?: true
  /** What is wrong in its templates is only warned of. */
  lenient?: true
}

type More = Omit<FieldMeta, 'description' | 'tenon'>

export function acts<T extends z.ZodType>(schema: T, description: string, more: More = {}): T {
  return schema.meta({ description, tenon: 'acts', ...more })
}

export function carried<T extends z.ZodType>(schema: T, description: string, more: More = {}): T {
  return schema.meta({ description, tenon: 'carried', ...more })
}

export function warned<T extends z.ZodType>(
  schema: T,
  description: string,
  note: string,
  more: More = {},
): T {
  return schema.meta({ description, tenon: 'warned', note, ...more })
}

export const text = z.string().max(100_000)
export const optionalText = text.optional()
/** Text that may be a script, a manifest or a file's content. */
export const longText = z.string().max(1_048_576)
export const flag = z.boolean().optional()
export const whole = z.int().nonnegative().optional()
export const names = z.array(partName).max(200).optional()
export const anyTable = z.record(z.string(), z.unknown()).optional()
export const texts = z.array(text).optional()

/** Written as text, a number or true/false; used as text. */
export const scalar = z.union([z.string(), z.number(), z.boolean()], {
  error: 'must be a string, a number, or true or false',
})
export const scalars = z.record(z.string(), scalar).optional()
export const labels = z.record(z.string().max(128), scalar).optional()

/** Names seen in templates as `.nuon.components.<name>`. */
export const varName = z
  .string()
  .max(63)
  .regex(/^[A-Za-z][A-Za-z0-9_]*$/, 'must be 1 to 63 letters, digits and _, starting with a letter')

const DURATION = /^(?:\d+(?:\.\d+)?(?:h|m|s|ms))+$/
const UNIT_SECONDS: Readonly<Record<string, number>> = { h: 3600, m: 60, s: 1, ms: 0.001 }

/** Seconds of a duration such as `1h30m`, rounded up; undefined when it is none. */
export function durationSeconds(words: string): number | undefined {
  if (!DURATION.test(words)) return undefined
  const pieces = [...words.matchAll(/(\d+(?:\.\d+)?)(h|ms|m|s)/g)]
  return Math.ceil(pieces.reduce((sum, [, n, unit]) => sum + Number(n) * UNIT_SECONDS[unit!]!, 0))
}

export function duration(most: string, example = '15m') {
  const limit = durationSeconds(most)!
  return z
    .string()
    .refine(
      (words) => inRange(durationSeconds(words), limit),
      `must be a duration such as ${example}, at most ${most}`,
    )
}

function inRange(seconds: number | undefined, limit: number): boolean {
  return seconds !== undefined && seconds > 0 && seconds <= limit
}

export const cron = z
  .string()
  .max(200)
  .refine(isCron, 'must be a cron schedule of five parts such as 0 */6 * * * (in UTC)')

const checkedCrons = new Map<string, boolean>()

/** An app repeats few schedules many times, and to parse one is slow. */
function isCron(words: string): boolean {
  let valid = checkedCrons.get(words)
  if (valid === undefined) checkedCrons.set(words, (valid = parsesAsCron(words)))
  return valid
}

function parsesAsCron(words: string): boolean {
  try {
    void new Cron(words, { mode: '5-part' })
    return true
  } catch {
    return false
  }
}

export const url = z.url({
  protocol: /^https?$/,
  error: 'must be an address that starts with http:// or https://',
})

export const egress = z
  .array(
    z.strictObject({
      host: acts(
        z
          .string()
          .refine(isEgressHost, { error: `must be ${EGRESS_HOST}`, abort: true })
          .refine(
            (host) => !isSpecialEgressHost(host),
            'must be a host of the network, not the machine itself or its metadata address',
          ),
        'A host name, *. and a domain for all names below it, or an IP address; no template.',
      ),
      port: acts(z.int().min(1).max(65_535).default(443), 'The port; 443 where it is not said.'),
    }),
  )
  .max(100)
  .optional()

export const repo = z.strictObject({
  repo: acts(z.string().min(1).max(1000), 'The repository: owner/name on GitHub, or its URL.'),
  directory: acts(z.string().max(1000).default('.'), 'The folder in it.'),
  branch: acts(z.string().min(1).max(255).default('main'), 'A branch or tag.'),
  drift_schedule: warned(
    cron.optional(),
    'Not a field of a repository.',
    'put drift_schedule beside the table; here nothing reads it',
  ),
})

export const repos = {
  public_repo: acts(repo.optional(), 'A repository that anyone can read.'),
  connected_repo: acts(
    repo.optional(),
    'A repository that needs access. When the app’s folder lies in a checkout of it, the local folder is sent.',
  ),
}

export const carriedRepos = {
  public_repo: carried(repo.optional(), 'A repository that anyone can read.'),
  connected_repo: carried(repo.optional(), 'A repository that needs access.'),
}

export const operationRoles = carried(
  z
    .array(
      z.strictObject({
        operation: carried(
          z.enum(['provision', 'reprovision', 'deprovision', 'deploy', 'teardown', 'trigger']),
          'What is done.',
        ),
        role: carried(text, 'With which role.'),
      }),
    )
    .optional(),
  'Which role does what.',
)

export const files = z
  .array(
    z.strictObject({
      contents: acts(longText, 'The text, or ./a-file of the app’s folder.', { file: true }),
    }),
  )
  .optional()
