import { compareVersions, parseVersion, satisfies } from '@tenon/go-template'

/** Whether a text is a version, read loosely as Helm does: a `v` before it, and parts left out, are fine. */
export function isVersion(text: string): boolean {
  try {
    parseVersion(text)
    return true
  } catch {
    return false
  }
}

/** The newest that fits a wish such as `^1.2`. Without one, prereleases are left out, as Helm does. */
export function newestFitting(versions: readonly string[], wanted: string): string | undefined {
  if (versions.includes(wanted)) return wanted
  const fitting = versions.flatMap((text) => {
    try {
      const version = parseVersion(text)
      return satisfies(wanted === '' ? '>0.0.0' : wanted, version) ? [{ text, version }] : []
    } catch {
      return []
    }
  })
  return fitting.toSorted((a, b) => compareVersions(b.version, a.version))[0]?.text
}
