import { decodeText } from './values/bytes.ts'
import type { Program } from './evaluate/evaluator.ts'
import type { BranchNode, CommandNode, ListNode, Operand, PipeNode } from './syntax/nodes.ts'

/** A way into the data, as byte strings. */
type Path = readonly string[]

/** Where a value may come from; none when that is not known before rendering. */
type Sources = readonly Path[]

interface Scope {
  readonly dot: Sources
  readonly variables: Map<string, Sources>
}

/** Stands in a reference for each element of a list or a map. */
export const EACH = '*'

const ROOT: Sources = [[]]
const UNKNOWN: Sources = []
const MAX_PATH = 24
const MAX_VISITS = 1000

/** Ways into the data, such as `['components', 'db', 'outputs', 'url']`, in order of appearance. */
export interface TemplateReferences {
  /** All that the template reads; `[]` means the whole of the data. */
  all: string[][]
  /** Those among them without which it does not render: `dig` says itself what it gives instead. */
  needed: string[][]
}

/**
 * What a template reads, found without rendering it. It follows `with`, `range` (an element is `*`), variables,
 * `template` calls and `index`, `get` and `dig` with literal keys. Branches count whether taken or not.
 */
export function templateReferences(template: Program): TemplateReferences {
  const collector = new Collector(template)
  collector.tree(template.name, ROOT)
  return collector.references()
}

class Collector {
  readonly #program: Program
  readonly #found = new Map<string, Path>()
  readonly #needed = new Map<string, Path>()
  readonly #walked = new Set<string>()

  constructor(program: Program) {
    this.#program = program
  }

  references(): TemplateReferences {
    return { all: decoded(this.#found), needed: decoded(this.#needed) }
  }

  tree(name: string, dot: Sources): void {
    const key = JSON.stringify([name, dot])
    const tree = this.#program.trees.get(name)
    if (!tree || this.#walked.has(key) || this.#walked.size >= MAX_VISITS) return
    this.#walked.add(key)
    this.#list(tree.root, { dot, variables: new Map([['$', dot]]) })
  }

  #read(sources: Sources): Sources {
    for (const path of sources) this.#found.set(keyOf(path), path)
    return sources
  }

  /** Where it is named; what a function made of it may be read again without it. */
  #need(sources: Sources): Sources {
    for (const path of sources) this.#needed.set(keyOf(path), path)
    return this.#read(sources)
  }

  // ---- statements

  #list(list: ListNode, scope: Scope): void {
    for (const node of list.nodes) {
      if (node.kind === 'action') {
        const sources = this.#pipeline(node.pipe, scope)
        if (node.pipe.declared.length === 0) this.#read(sources)
      } else if (node.kind === 'template') {
        this.tree(node.name, node.pipe ? this.#pipeline(node.pipe, scope) : UNKNOWN)
      } else if (node.kind === 'if' || node.kind === 'with' || node.kind === 'range') {
        this.#branch(node, scope)
      }
    }
  }

  #branch(node: BranchNode, outer: Scope): void {
    const scope = { ...outer, variables: new Map(outer.variables) }
    const sources = this.#read(this.#pipeline(node.pipe, scope))
    const elements = extended(sources, [EACH])
    const [first, second] = node.pipe.declared
    if (node.kind === 'range' && first !== undefined) {
      scope.variables.set(first, second === undefined ? elements : UNKNOWN)
      if (second !== undefined) scope.variables.set(second, elements)
    }
    const dot = node.kind === 'if' ? scope.dot : node.kind === 'with' ? sources : elements
    this.#list(node.list, { dot, variables: scope.variables })
    if (node.elseList) this.#list(node.elseList, scope)
    // What a branch assigns may hold after it.
    for (const [name, known] of outer.variables) {
      const assigned = scope.variables.get(name) ?? known
      if (assigned !== known && !node.pipe.declared.includes(name))
        outer.variables.set(name, union(known, assigned))
    }
  }

  // ---- pipelines

  #pipeline(pipe: PipeNode, scope: Scope): Sources {
    let sources: Sources | undefined
    for (const command of pipe.commands) sources = this.#command(command, sources, scope)
    for (const name of pipe.declared) {
      const known = pipe.isAssign ? (scope.variables.get(name) ?? UNKNOWN) : UNKNOWN
      scope.variables.set(name, union(known, sources ?? UNKNOWN))
    }
    return sources ?? UNKNOWN
  }

  #command(command: CommandNode, piped: Sources | undefined, scope: Scope): Sources {
    const [first, ...args] = command.args as [Operand, ...Operand[]]
    if (first.kind !== 'identifier') {
      for (const arg of args) this.#read(this.#operand(arg, scope))
      return this.#operand(first, scope)
    }
    const into = this.#lookup(first.name, args, piped, scope)
    if (into) return into
    const given = args.map((arg) => this.#operand(arg, scope))
    if (piped) given.push(piped)
    for (const sources of given) this.#read(sources)
    return passesOn(first.name) ? given.reduce(union, UNKNOWN) : UNKNOWN
  }

  /** `index .a "b"`, `get .a "b"` and `dig "b" … .a`: as far as the keys are literal. */
  #lookup(name: string, args: Operand[], piped: Sources | undefined, scope: Scope): Sources | undefined {
    const isDig = name === 'dig'
    if (!isDig && name !== 'index' && name !== 'get') return undefined
    const target = isDig ? args.at(piped ? args.length : -1) : args[0]
    // What is looked into is not itself read: only what the keys lead to.
    const base = isDig && piped ? piped : target && this.#operand(target, scope, (sources) => sources)
    if (!base) return undefined
    const keys = isDig ? args.slice(0, piped ? -1 : -2) : args.slice(1)
    const fallback = isDig ? args.at(piped ? -1 : -2) : undefined
    if (fallback) this.#read(this.#operand(fallback, scope))
    if (!isDig && piped) this.#read(piped)
    const names: string[] = []
    for (const key of keys) {
      if (key.kind === 'string') names.push(key.text)
      else if (key.kind === 'number') names.push(EACH)
      else {
        this.#read(this.#operand(key, scope))
        this.#read(extended(base, names))
        return UNKNOWN
      }
    }
    if (!isDig && piped) {
      this.#read(extended(base, names))
      return UNKNOWN
    }
    const into = extended(base, names)
    return isDig ? this.#read(into) : this.#need(into)
  }

  #operand(node: Operand, scope: Scope, read = (sources: Sources) => this.#need(sources)): Sources {
    switch (node.kind) {
      case 'dot':
        return scope.dot
      case 'field':
        return read(extended(scope.dot, node.names))
      case 'variable': {
        const sources = extended(scope.variables.get(node.name) ?? UNKNOWN, node.fields)
        return node.fields.length > 0 ? read(sources) : sources
      }
      case 'chain':
        return read(extended(this.#operand(node.operand, scope, read), node.fields))
      case 'pipe':
        return this.#pipeline(node, scope)
      case 'identifier':
        return this.#command({ kind: 'command', position: node.position, args: [node] }, undefined, scope)
      default:
        return UNKNOWN
    }
  }
}

/** Functions whose result is one of their arguments, so that what is read of it is read of them. */
const passesOn = (name: string): boolean => ['and', 'or', 'default', 'coalesce', 'ternary'].includes(name)

function decoded(paths: ReadonlyMap<string, Path>): string[][] {
  return [...paths.values()].map((path) => path.map(decodeText))
}

/** Byte strings have no character past 255, so that this separates. */
function keyOf(path: Path): string {
  return path.join('\uffff')
}

function extended(sources: Sources, names: readonly string[]): Sources {
  return sources.map((path) => [...path, ...names].slice(0, MAX_PATH))
}

function union(a: Sources, b: Sources): Sources {
  if (a.length === 0 || b.length === 0) return a.length === 0 ? b : a
  const known = new Set(a.map(keyOf))
  return [...a, ...b.filter((path) => !known.has(keyOf(path)))]
}
