import type { Budget } from '../budget.ts'
import { runeAt } from '../values/bytes.ts'
import { isWordRune } from './class.ts'
import { compileRegex, type Instruction } from './compile.ts'
import { parseRegex } from './parse.ts'
import type { Assertion } from './syntax.ts'

/** Byte offsets: start and end of the match, then of each group; -1 for a group that took no part. */
export type Match = readonly number[]

interface Thread {
  at: number
  captures: number[]
}

/** Threads in order of preference, each instruction once. */
interface Threads {
  list: Thread[]
  seen: Uint32Array
  generation: number
}

/**
 * A regular expression that matches in time linear in the text: it follows all ways at once, as RE2 does,
 * and never backtracks. The leftmost match wins, then the one a backtracking matcher would find first.
 */
export class Regex {
  readonly names: readonly string[]
  readonly source: string
  readonly #program: Instruction[]
  readonly #budget: Budget
  readonly #unset: number[]

  constructor(budget: Budget, pattern: string) {
    budget.spend(pattern.length)
    const { node, names } = parseRegex(pattern)
    this.source = pattern
    this.names = names
    this.#program = compileRegex(budget, node)
    this.#budget = budget
    this.#unset = names.flatMap(() => [-1, -1])
  }

  /** The first match at or after a byte offset. */
  find(text: string, from = 0): Match | undefined {
    let current = this.#threads()
    let next = this.#threads()
    let matched: number[] | undefined
    for (let position = from; ;) {
      if (!matched) this.#add(current, this.#program.length - 1, text, position, this.#unset)
      if (matched && current.list.length === 0) break
      this.#budget.spend((current.list.length + 1) / 3)
      const { rune, width } = runeAt(text, position)
      next.list = []
      next.generation++
      for (const thread of current.list) {
        const instruction = this.#program[thread.at] as Instruction
        if (instruction.op === 'match') {
          matched = thread.captures
          break
        }
        if (instruction.op === 'rune' && width > 0 && instruction.test(rune)) {
          this.#add(next, instruction.next, text, position + width, thread.captures)
        }
      }
      if (width === 0) break
      position += width
      ;[current, next] = [next, current]
    }
    return matched
  }

  /** Up to `limit` matches, none empty right after another. */
  findAll(text: string, limit: number): Match[] {
    const matches: Match[] = []
    let previousEnd = -1
    for (let position = 0; matches.length < limit && position <= text.length;) {
      const match = this.find(text, position)
      if (!match) break
      const [start = 0, end = 0] = match
      if (end !== position || start !== previousEnd) matches.push(match)
      position = end === position ? position + Math.max(runeAt(text, position).width, 1) : end
      previousEnd = end
    }
    return matches
  }

  #threads(): Threads {
    return { list: [], seen: new Uint32Array(this.#program.length), generation: 1 }
  }

  /** Adds a thread, following what takes no character. A stack, since programs may be long. */
  #add(threads: Threads, start: number, text: string, position: number, from: number[]): void {
    const stack: Thread[] = [{ at: start, captures: from }]
    for (let thread = stack.pop(); thread; thread = stack.pop()) {
      const { at, captures } = thread
      if (threads.seen[at] === threads.generation) continue
      threads.seen[at] = threads.generation
      this.#budget.spend(1 / 8)
      const instruction = this.#program[at] as Instruction
      if (instruction.op === 'split') {
        stack.push({ at: instruction.second, captures }, { at: instruction.first, captures })
      } else if (instruction.op === 'save') {
        const saved = captures.slice()
        saved[instruction.slot] = position
        stack.push({ at: instruction.next, captures: saved })
      } else if (instruction.op !== 'assert') {
        threads.list.push(thread)
      } else if (holds(instruction.assertion, text, position)) {
        stack.push({ at: instruction.next, captures })
      }
    }
  }
}

function holds(assertion: Assertion, text: string, position: number): boolean {
  switch (assertion) {
    case 'beginText':
      return position === 0
    case 'endText':
      return position === text.length
    case 'beginLine':
      return position === 0 || text[position - 1] === '\n'
    case 'endLine':
      return position === text.length || text[position] === '\n'
    case 'boundary':
      return isWordAt(text, position - 1) !== isWordAt(text, position)
    case 'noBoundary':
      return isWordAt(text, position - 1) === isWordAt(text, position)
  }
}

const isWordAt = (text: string, at: number): boolean => isWordRune(text.charCodeAt(at))
