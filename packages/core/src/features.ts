/**
 * What an agent can do beyond the first version of the wire, by name, with the minor version that brought it. Told in
 * `hello`; a manifest names those that it requires, since a restriction that is ignored is a hole.
 */
export const FEATURES = {
  /** Holds a job that may not run yet, until the moment that the server signed. */
  hold: '0.2',
  /** Keeps a job to the network of its manifest. */
  network: '0.2',
} as const
export type Feature = keyof typeof FEATURES

export const FEATURE_NAMES = Object.keys(FEATURES) as Feature[]

/** With its version, so that an agent that has never heard of the feature can still say what it takes. */
export interface Requirement {
  feature: string
  since: string
}

/** Pure: what is required of an agent and that it does not have. */
export function lacking(required: readonly Requirement[], has: readonly string[]): Requirement[] {
  return required.filter(({ feature }) => !has.includes(feature))
}

/** For people: the version that has all of it. */
export function describeLack(lack: readonly Requirement[]): string {
  const newest = lack
    .map(({ since }) => since)
    .toSorted(byVersion)
    .at(-1)
  return `it needs agent ≥ ${newest}, which has ${lack.map(({ feature }) => feature).join(', ')}`
}

function byVersion(a: string, b: string): number {
  const [x, y] = [a, b].map((version) => version.split('.').map(Number))
  return (x![0] ?? 0) - (y![0] ?? 0) || (x![1] ?? 0) - (y![1] ?? 0)
}
