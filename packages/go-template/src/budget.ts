import { sizeWords } from './size.ts'
import { LimitError } from './errors.ts'

export interface TemplateLimits {
  /** Units of work: nodes walked, functions called, elements visited, each 16 to 64 bytes of text. */
  steps: number
  /** Nesting of `template` calls and of values. */
  depth: number
  /** Size of the output, and of any one string made on the way. */
  outputBytes: number
}

export const DEFAULT_LIMITS: TemplateLimits = { steps: 1_000_000, depth: 500, outputBytes: 8 * 1024 * 1024 }

/** What one rendering may still spend. */
export class Budget {
  readonly limits: TemplateLimits
  #steps: number

  constructor(limits: Partial<TemplateLimits> = {}) {
    this.limits = { ...DEFAULT_LIMITS, ...limits }
    this.#steps = this.limits.steps
  }

  spend(steps: number): void {
    this.#steps -= steps
    if (!(this.#steps >= 0)) throw new LimitError(`exceeded the limit of ${this.limits.steps} steps`)
  }

  /** Pays for text about to be made or read. */
  text(bytes: number): void {
    if (!(bytes <= this.limits.outputBytes)) {
      throw new LimitError(`exceeded the limit of ${sizeWords(this.limits.outputBytes)}`)
    }
    this.spend(bytes / 64)
  }

  /** Pays for text that a function reads or gives. */
  handled(bytes: number): void {
    if (bytes > this.limits.outputBytes) this.text(bytes)
    this.spend(bytes / 16)
  }

  depth(depth: number): void {
    if (depth > this.limits.depth) throw new LimitError(`exceeded the maximum depth (${this.limits.depth})`)
  }
}
