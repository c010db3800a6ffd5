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

/** Everything that loading an app finds out about its files, besides the app. */
export class Findings {
  readonly problems: ConfigProblem[] = []
  readonly warnings: ConfigWarning[] = []
  readonly idle: IdleField[] = []

  /** In the order of files, then of lines. */
  sorted(): { problems: ConfigProblem[]; warnings: ConfigWarning[]; idle: IdleField[] } {
    return {
      problems: this.problems.toSorted(byPlace),
      warnings: this.warnings.toSorted(byPlace),
      idle: this.idle,
    }
  }
}

function byPlace(a: ConfigWarning, b: ConfigWarning): number {
  const file = a.file < b.file ? -1 : a.file > b.file ? 1 : 0
  return file || a.line - b.line || a.column - b.column
}
