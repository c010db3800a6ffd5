/** A value of a list that later versions add to: what is not known here is kept as its text, and treated as `other`. */
export type OpenValue<Known extends string> = Known | (string & Record<never, never>)

export function knownOr<Known extends string>(known: readonly Known[], value: string): Known | 'other' {
  return known.find((one) => one === value) ?? 'other'
}
