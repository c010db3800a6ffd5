import { JOB_KINDS, type JobKind } from '@tenon/core'
import type { AgentError } from './ground/errors.ts'

export interface KindSetting<V extends string> {
  variable: string
  /** What stands after the `=`, for people. */
  form: string
  isValue(text: string): text is V
}

/** Pure: a setting for each kind of job, such as `deploy=cloud-admin,action=reader`. */
export function byKind<V extends string>(
  text: string,
  { variable, form, isValue }: KindSetting<V>,
  bad: (message: string) => AgentError,
): Partial<Record<JobKind, V>> {
  const pairs = text.split(',').filter((pair) => pair.trim() !== '')
  return Object.fromEntries(
    pairs.map((pair) => {
      const [kind = '', value = ''] = pair.split('=').map((part) => part.trim())
      if (JOB_KINDS.some((known) => known === kind) && isValue(value)) return [kind, value]
      throw bad(
        `${variable} must be KIND=${form}, separated by commas; ${pair} is none. Kinds: ${JOB_KINDS.join(', ')}`,
      )
    }),
  )
}
