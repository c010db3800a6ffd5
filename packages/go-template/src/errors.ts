export type TemplateErrorClass = 'parse' | 'exec'

export interface TemplateErrorPlace {
  class: TemplateErrorClass
  /** Counted from 1. */
  line: number
  /** Counted from 1, in characters. */
  column: number
}

/** What a bad template or a failed rendering gives. `message` is Go's own wording where Go has one. */
export class TemplateError extends Error {
  override readonly name = 'TemplateError'
  readonly class: TemplateErrorClass
  readonly line: number
  readonly column: number

  constructor(message: string, place: TemplateErrorPlace, options?: ErrorOptions) {
    super(message, options)
    this.class = place.class
    this.line = place.line
    this.column = place.column
  }
}

/** A function refused its arguments. The evaluator turns it into a TemplateError with the place. */
export class CallError extends Error {
  override readonly name = 'CallError'
}

/** A limit of steps, depth or size was reached. */
export class LimitError extends Error {
  override readonly name = 'LimitError'
}
