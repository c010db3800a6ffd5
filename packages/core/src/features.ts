/**
 * What an agent can do beyond the first version of the wire, by name, with the minor version that brought it. Told in
 * `hello`; a manifest names those that it requires, since a restriction that is ignored is a hole.
 */
export const FEATURES = {
  /** Holds a job that may not run yet, until the moment that the server signed. */
  hold: '0.2',
  /** Reads the network of a manifest: not the promise to keep a job to it. */
  network: '0.2',
  /** Keeps a job to the network of its manifest. */
  'job-networks': '0.3',
  /** Says of each job that it held how it ended, also when its last moment to start has passed. */
  'hold-answers': '0.3',
} as const
export type Feature = keyof typeof FEATURES

export const FEATURE_NAMES = Object.keys(FEATURES) as Feature[]

export function requirement(feature: Feature): Requirement {
  return { feature, since: FEATURES[feature] }
}

/** Of a name that was kept; which version brought a later one is not known here. */
export function requirementOf(feature: string): Requirement {
  const known = FEATURE_NAMES.find((name) => name === feature)
  return known ? requirement(known) : { feature, since: '' }
}

/** Pure: what was once decided to be required stays so. */
export function mergeRequirements(...lists: readonly (readonly Requirement[])[]): Requirement[] {
  return [...new Map(lists.flat().map((one) => [one.feature, one])).values()]
}

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
    .filter((since) => since !== '')
    .toSorted(byVersion)
    .at(-1)
  return `it needs ${newest === undefined ? 'a newer agent' : `agent ≥ ${newest}`}, which has ${lack.map(({ feature }) => feature).join(', ')}`
}

function byVersion(a: string, b: string): number {
  const [x, y] = [a, b].map((version) => version.split('.').map(Number))
  return (x![0] ?? 0) - (y![0] ?? 0) || (x![1] ?? 0) - (y![1] ?? 0)
}
