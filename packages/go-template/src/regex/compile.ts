import type { Budget } from '../budget.ts'
import { CallError } from '../errors.ts'
import type { Assertion, RegexNode, RuneTest } from './syntax.ts'

export type Instruction =
  | { op: 'rune'; test: RuneTest; next: number }
  | { op: 'assert'; assertion: Assertion; next: number }
  | { op: 'save'; slot: number; next: number }
  | { op: 'split'; first: number; second: number }
  | { op: 'match' }

/** Copies of what a counted repetition repeats count too. */
const MAX_INSTRUCTIONS = 20_000

/** A program for the matcher; it starts at its last instruction. */
export function compileRegex(budget: Budget, node: RegexNode): Instruction[] {
  const program: Instruction[] = [{ op: 'match' }]
  const start = compile(budget, program, { kind: 'capture', index: 0, node }, 0)
  if (start !== program.length - 1) emit(budget, program, { op: 'split', first: start, second: start })
  return program
}

function emit(budget: Budget, program: Instruction[], instruction: Instruction): number {
  budget.spend(1 / 4)
  if (program.length >= MAX_INSTRUCTIONS) throw new CallError('error parsing regexp: expression too large')
  return program.push(instruction) - 1
}

/** Compiles from the end to the start: gives where to begin so as to go on to `next`. */
function compile(budget: Budget, program: Instruction[], node: RegexNode, next: number): number {
  switch (node.kind) {
    case 'empty':
      return next
    case 'rune':
      return emit(budget, program, { op: 'rune', test: node.test, next })
    case 'assert':
      return emit(budget, program, { op: 'assert', assertion: node.assertion, next })
    case 'capture': {
      const close = emit(budget, program, { op: 'save', slot: 2 * node.index + 1, next })
      const inside = compile(budget, program, node.node, close)
      return emit(budget, program, { op: 'save', slot: 2 * node.index, next: inside })
    }
    case 'sequence':
      return node.nodes.reduceRight((after, part) => compile(budget, program, part, after), next)
    case 'choice':
      return node.nodes
        .map((part) => compile(budget, program, part, next))
        .reduceRight((second, first) => emit(budget, program, { op: 'split', first, second }))
    case 'repeat':
      return compileRepeat(budget, program, node, next)
  }
}

type Repeat = Extract<RegexNode, { kind: 'repeat' }>

function compileRepeat(budget: Budget, program: Instruction[], repeat: Repeat, next: number): number {
  const { node, min, max, greedy } = repeat
  const branch = (inside: number): Instruction =>
    greedy ? { op: 'split', first: inside, second: next } : { op: 'split', first: next, second: inside }
  let start = next
  if (max === Number.POSITIVE_INFINITY) {
    const loop = emit(budget, program, { op: 'match' })
    program[loop] = branch(compile(budget, program, node, loop))
    start = loop
  } else {
    for (let i = min; i < max; i++)
      start = emit(budget, program, branch(compile(budget, program, node, start)))
  }
  for (let i = 0; i < min; i++) start = compile(budget, program, node, start)
  return start
}
