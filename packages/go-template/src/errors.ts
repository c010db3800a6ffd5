/** What is wrong: the text (`parse`), what it does with its data (`exec`), how much that takes, or its output. */
export type TemplateErrorCode = 'parse' | 'exec' | 'limit' | 'not_text'

export interface TemplateErrorPlace {
  code: TemplateErrorCode
  /** Counted from 1. */
  line: number
  /** Counted from 1, in characters. */
  column: number
}

/** What a bad template or a failed rendering gives. `message` is Go's own wording where Go has one. */
export class TemplateError extends Error {
  override readonly name = 'TemplateError'
  readonly code: TemplateErrorCode
  readonly line: number
  readonly column: number

  constructor(message: string, place: TemplateErrorPlace, options?: ErrorOptions) {
    super(message, options)
    this.code = place.code
    this.line = place.line
    this.column = place.column
  }
}

/** What a function throws to refuse its arguments. It is the cause of the TemplateError, which has the place. */
export class CallError extends Error {
  override readonly name = 'CallError'
}

/** A limit of steps, depth or size was reached. */
export class LimitError extends Error {
  override readonly name = 'LimitError'
}
