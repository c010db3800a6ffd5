import type { Budget } from '../budget.ts'
import { decodeText } from '../values/bytes.ts'
import { LimitError, TemplateError } from '../errors.ts'
import { type CallSite, evaluateCall, NOTHING, type Piped } from './call.ts'
import { evaluateFields, type MissingKey } from './fields.ts'
import { Variables } from './variables.ts'
import type { Functions } from '../functions/functions.ts'
import {
  type AnyNode,
  type BranchNode,
  type ChainNode,
  type CommandNode,
  type ListNode,
  type Node,
  nodeText,
  type NumberNode,
  type Operand,
  type PipeNode,
  type TemplateNode,
} from '../syntax/nodes.ts'
import { placeOf } from '../syntax/place.ts'
import type { ParsedTree } from '../syntax/parser.ts'
import { printValue } from '../values/print.ts'
import { fromData, GoList, GoMap, int, isTrue, type Value } from '../values/values.ts'

type Signal = 'break' | 'continue' | undefined

export interface Program {
  readonly text: string
  readonly name: string
  readonly trees: ReadonlyMap<string, ParsedTree>
}

/** Walks one template over one datum. It is used once. */
export class Evaluator {
  readonly budget: Budget
  readonly #program: Program
  readonly #functions: Functions
  readonly missingKey: MissingKey
  #variables = new Variables(undefined)
  #node: AnyNode | undefined
  #treeName: string
  #depth = 0
  #output = ''

  constructor(program: Program, functions: Functions, missingKey: MissingKey, budget: Budget) {
    this.#program = program
    this.#functions = functions
    this.missingKey = missingKey
    this.budget = budget
    this.#treeName = program.name
  }

  /** The output for JSON data, as a byte string. Throws nothing but a TemplateError. */
  run(json: unknown): string {
    try {
      const data = fromData(json) ?? undefined
      const tree = this.#program.trees.get(this.#program.name)
      this.#variables = new Variables(data)
      if (tree) this.#walkList(data, tree.root)
      return this.#output
    } catch (error) {
      if (error instanceof TemplateError) throw error
      if (error instanceof LimitError) return this.fail(error.message, error)
      // The stack or a string outgrew the engine: the limits allow more than it can hold.
      if (error instanceof RangeError) return this.fail('exceeded what the engine can hold', error)
      throw error
    }
  }

  at(node: AnyNode): void {
    this.#node = node
  }

  fail(message: string, cause?: unknown): never {
    const node = this.#node
    const place = placeOf(this.#program.text, node?.position ?? 0)
    const where = `${this.#program.name}:${place.line}:${place.byteColumn}`
    const code = cause instanceof LimitError || cause instanceof RangeError ? 'limit' : 'exec'
    const context = node ? ` at <${nodeText(node)}>` : ''
    throw new TemplateError(
      decodeText(`template: ${where}: executing "${this.#treeName}"${context}: ${message}`),
      { code, line: place.line, column: place.column },
      { cause },
    )
  }

  // ---- statements

  #walkList(dot: Value, list: ListNode): Signal {
    for (const node of list.nodes) {
      const signal = this.#walk(dot, node)
      if (signal) return signal
    }
    return undefined
  }

  #walk(dot: Value, node: Node): Signal {
    this.budget.spend(1)
    this.#node = node
    switch (node.kind) {
      case 'text':
        this.#write(node.text)
        return undefined
      case 'action': {
        const value = this.#pipeline(dot, node.pipe)
        if (node.pipe.declared.length === 0) this.#print(node, value)
        return undefined
      }
      case 'if':
      case 'with':
        return this.#scoped(() => this.#ifOrWith(dot, node))
      case 'range':
        return this.#scoped(() => this.#range(dot, node))
      case 'template':
        return this.#template(dot, node)
      case 'break':
      case 'continue':
        return node.kind
    }
  }

  #scoped(run: () => Signal): Signal {
    const mark = this.#variables.count
    const signal = run()
    this.#variables.backTo(mark)
    return signal
  }

  #write(text: string): void {
    const size = this.#output.length + text.length
    if (size > this.budget.limits.outputBytes) this.budget.text(size)
    this.budget.spend(text.length / 64)
    this.#output += text
  }

  #print(node: Node, value: Value): void {
    this.#node = node
    if (typeof value === 'string') this.#write(value)
    else if (value === undefined || value === null) this.#printNothing()
    else this.#write(printValue(this.budget, value, 'v'))
  }

  #printNothing(): void {
    if (this.missingKey === 'unprintable') this.fail('there is no value to print')
    this.#write('<no value>')
  }

  #ifOrWith(dot: Value, node: BranchNode): Signal {
    const value = this.#pipeline(dot, node.pipe)
    if (isTrue(value)) return this.#walkList(node.kind === 'with' ? value : dot, node.list)
    return node.elseList && this.#walkList(dot, node.elseList)
  }

  #range(dot: Value, node: BranchNode): Signal {
    const value = this.#pipeline(dot, node.pipe)
    const mark = this.#variables.count
    const entries = this.#entriesOf(value)
    for (const [key, item] of entries) {
      this.budget.spend(1)
      this.#setRangeVariables(node.pipe, key, item)
      const signal = this.#walkList(item, node.list)
      this.#variables.backTo(mark)
      if (signal === 'break') break
    }
    if (entries.length > 0 || !node.elseList) return undefined
    return this.#walkList(dot, node.elseList)
  }

  #entriesOf(value: Value): [Value, Value][] {
    if (value instanceof GoList) return value.items.map((item, i) => [int(i), item])
    if (value instanceof GoMap) return value.entries(this.budget)
    if (value === undefined || value === null) return []
    return this.fail(`range can't iterate over ${printValue(this.budget, value, 'v')}`)
  }

  #setRangeVariables(pipe: PipeNode, key: Value, item: Value): void {
    const [first, second] = pipe.declared
    if (first === undefined) return
    if (pipe.isAssign) {
      this.#assign(first, second === undefined ? item : key)
      if (second !== undefined) this.#assign(second, item)
      return
    }
    const element = [second ?? first, item] as const
    this.#variables.replaceLast(second === undefined ? [element] : [[first, key], element])
  }

  #template(dot: Value, node: TemplateNode): Signal {
    const tree = this.#program.trees.get(node.name)
    if (!tree) return this.fail(`template "${node.name}" not defined`)
    this.budget.depth(++this.#depth)
    const argument = node.pipe && this.#pipeline(dot, node.pipe)
    const [variables, treeName] = [this.#variables, this.#treeName]
    this.#variables = new Variables(argument)
    this.#treeName = node.name
    this.#walkList(argument, tree.root)
    this.#variables = variables
    this.#treeName = treeName
    this.#depth--
    return undefined
  }

  // ---- pipelines

  #assign(name: string, value: Value): void {
    if (!this.#variables.assign(name, value)) this.fail(`undefined variable: ${name}`)
  }

  #pipeline(dot: Value, pipe: PipeNode): Value {
    this.#node = pipe
    let piped: Piped = NOTHING
    // A nil in an interface comes out of a pipe as no value at all.
    for (const command of pipe.commands) piped = this.#command(dot, command, piped) ?? undefined
    const value = piped === NOTHING ? undefined : piped
    for (const name of pipe.declared) {
      if (pipe.isAssign) this.#assign(name, value)
      else this.#variables.declare(name, value)
    }
    return value
  }

  #command(dot: Value, command: CommandNode, piped: Piped): Value {
    const first = command.args[0] as Operand
    const site: CallSite = { dot, args: command.args.slice(1), piped, node: command }
    switch (first.kind) {
      case 'identifier':
        return this.#function(first.name, first, site)
      case 'field':
        this.#node = first
        return evaluateFields(this, dot, first.names, { ...site, node: first })
      case 'chain':
        return this.#chain(first, { ...site, node: first })
      case 'variable':
        this.#node = first
        if (first.fields.length === 0) this.#notAFunction(command, piped)
        return evaluateFields(this, this.#variables.valueOf(first.name), first.fields, {
          ...site,
          node: first,
        })
      case 'pipe':
        this.#notAFunction(command, piped)
        return this.#pipeline(dot, first)
      default:
        this.#node = first
        this.#notAFunction(command, piped)
        return first.kind === 'nil' ? this.fail('nil is not a command') : this.#plain(dot, first)
    }
  }

  #notAFunction(command: CommandNode, piped: Piped): void {
    if (command.args.length === 1 && piped === NOTHING) return
    this.fail(`can't give argument to non-function ${nodeText(command.args[0] as Operand)}`)
  }

  #plain(dot: Value, node: Operand): Value {
    if (node.kind === 'dot') return dot
    if (node.kind === 'string') return node.text
    if (node.kind === 'bool') return node.value
    return node.kind === 'number' ? this.#ideal(node) : undefined
  }

  #ideal(node: NumberNode): Value {
    return node.ideal === undefined ? this.fail(`${node.text} overflows int`) : node.ideal
  }

  #function(name: string, node: AnyNode, site: CallSite): Value {
    this.#node = node
    const goFunction = this.#functions[name]
    if (!goFunction) return this.fail(`"${name}" is not a defined function`)
    return evaluateCall(this, goFunction, name, site)
  }

  #chain(chain: ChainNode, site: CallSite): Value {
    this.#node = chain
    const receiver = this.operand(site.dot, chain.operand)
    return evaluateFields(this, receiver, chain.fields, site)
  }

  /** The value of an operand that is not typed by a parameter. */
  operand(dot: Value, node: Operand): Value {
    this.#node = node
    const site = { dot, args: [], piped: NOTHING, node } as const
    switch (node.kind) {
      case 'field':
        return evaluateFields(this, dot, node.names, site)
      case 'variable':
        return evaluateFields(this, this.#variables.valueOf(node.name), node.fields, site)
      case 'chain':
        return this.#chain(node, site)
      case 'pipe':
        return this.#pipeline(dot, node)
      case 'identifier':
        return this.#function(node.name, node, site)
      default:
        return this.#plain(dot, node)
    }
  }
}
