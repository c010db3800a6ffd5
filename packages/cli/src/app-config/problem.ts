/** One mistake in the app config, where it is, and what was expected there. */
export interface ConfigProblem {
  /** Relative to the app's folder. */
  file: string
  line: number
  column: number
  message: string
  expected: string
}

export function formatProblem(problem: ConfigProblem): string {
  return `${problem.file}:${problem.line}:${problem.column}: ${problem.message}; expected ${problem.expected}`
}

/** Something that loads, and that its author should know of. */
export interface ConfigWarning {
  file: string
  line: number
  column: number
  message: string
}

export function formatWarning(warning: ConfigWarning): string {
  return `${warning.file}:${warning.line}:${warning.column}: ${warning.message}`
}

/** A field that nothing acts on: kept for later, or set aside. */
export interface IdleField {
  file: string
  field: string
  mark: 'carried' | 'warned'
}

/** The same with its kind of file and where it stands, which is only looked for when somebody asks. */
interface FoundIdle extends IdleField {
  kind: string
  place: () => { line: number; column: number }
}

export interface Found {
  problems: ConfigProblem[]
  warnings: ConfigWarning[]
  idle: IdleField[]
  /** Of the fields that are kept for later, the first place of each. */
  kept: () => ConfigWarning[]
}

/** Everything that loading an app finds out about its files, besides the app. */
export class Findings {
  readonly problems: ConfigProblem[] = []
  readonly warnings: ConfigWarning[] = []
  readonly idle: FoundIdle[] = []

  /** In the order of files, then of lines. */
  sorted(): Found {
    return {
      problems: this.problems.toSorted(byPlace),
      warnings: this.warnings.toSorted(byPlace),
      idle: this.idle.map(({ file, field, mark }) => ({ file, field, mark })),
      kept: () => this.#kept(),
    }
  }

  #kept(): ConfigWarning[] {
    const byField = new Map<string, FoundIdle[]>()
    for (const each of this.idle.toSorted((a, b) => (a.file < b.file ? -1 : 1))) {
      if (each.mark !== 'carried') continue
      const name = `${each.kind} ${each.field}`
      byField.set(name, [...(byField.get(name) ?? []), each])
    }
    const warnings = [...byField.values()].map(([first, ...more]): ConfigWarning => {
      const files = new Set([first!, ...more].map(({ file }) => file)).size
      const where = files > 1 ? ` (in ${files} files)` : ''
      const message = `${first!.field} is kept, but nothing acts on it yet${where}`
      return { file: first!.file, ...first!.place(), message }
    })
    return warnings.toSorted(byPlace)
  }
}

function byPlace(a: ConfigWarning, b: ConfigWarning): number {
  const file = a.file < b.file ? -1 : a.file > b.file ? 1 : 0
  return file || a.line - b.line || a.column - b.column
}
