/** The parts of a regular expression. */

export type RuneTest = (rune: number) => boolean

export type Assertion = 'beginText' | 'endText' | 'beginLine' | 'endLine' | 'boundary' | 'noBoundary'

export type RegexNode =
  | { kind: 'empty' }
  | { kind: 'rune'; test: RuneTest }
  | { kind: 'assert'; assertion: Assertion }
  | { kind: 'capture'; index: number; node: RegexNode }
  | { kind: 'sequence'; nodes: RegexNode[] }
  | { kind: 'choice'; nodes: RegexNode[] }
  | { kind: 'repeat'; node: RegexNode; min: number; max: number; greedy: boolean }

export interface ParsedRegex {
  node: RegexNode
  /** The name of each group, the whole match being the first; '' for one without a name. */
  names: string[]
}
