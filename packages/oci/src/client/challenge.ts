/** One way in that a registry offers in `WWW-Authenticate`. */
export interface Challenge {
  scheme: string
  parameters: Record<string, string>
}

const MAX_CHARS = 4096

/** Reads what RFC 9110 allows, quoted or not, several in one header; anything else is passed over. */
export const parseChallenges = (header: string | undefined): Challenge[] => {
  const challenges: Challenge[] = []
  const tokens = /([A-Za-z0-9_-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))|([A-Za-z][A-Za-z0-9_-]*)/g
  for (const [, name, quoted, bare, scheme] of (header ?? '').slice(0, MAX_CHARS).matchAll(tokens)) {
    if (scheme !== undefined) challenges.push({ scheme: scheme.toLowerCase(), parameters: {} })
    const last = challenges.at(-1)
    if (name === undefined || last === undefined) continue
    last.parameters[name.toLowerCase()] =
      quoted === undefined ? (bare ?? '') : quoted.replaceAll(/\\(.)/g, '$1')
  }
  return challenges
}
