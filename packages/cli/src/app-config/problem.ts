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
