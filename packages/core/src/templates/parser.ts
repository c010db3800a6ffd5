import { decodeText } from './bytes.ts'
import { TemplateError } from './errors.ts'
import { lex, type Token, type TokenKind } from './lexer.ts'
import { parseCharacter, parseNumber, unquote } from './literals.ts'
import { type CommandNode, type ListNode, type Node, nodeText, type Operand, type PipeNode } from './nodes.ts'
import { placeOf } from './place.ts'

export interface ParsedTree {
  readonly name: string
  readonly root: ListNode
}

/** How deep blocks and parentheses may nest: the parser and the evaluator recurse. */
const MAX_NESTING = 300

interface EndNode {
  kind: 'end' | 'else'
}

/** One `define`, `block` or the template itself: its variables are its own. */
interface Scope {
  variables: string[]
  ranges: number
}

const newScope = (): Scope => ({ variables: ['$'], ranges: 0 })

const OPERAND_STARTS: ReadonlySet<TokenKind> = new Set<TokenKind>([
  'bool',
  'char',
  'complex',
  'dot',
  'field',
  'identifier',
  'number',
  'rawString',
  'string',
  'variable',
  'leftParen',
])

/** Parses a byte string into the trees it defines, its own among them. */
export function parseTrees(
  text: string,
  name: string,
  hasFunction: (name: string) => boolean,
): Map<string, ParsedTree> {
  return new Parser(text, name, hasFunction).run()
}

class Parser {
  readonly #text: string
  readonly #name: string
  readonly #hasFunction: (name: string) => boolean
  readonly #tokens: Token[]
  readonly #trees = new Map<string, ParsedTree>()
  #at = 0
  #scope = newScope()
  #nesting = 0

  constructor(text: string, name: string, hasFunction: (name: string) => boolean) {
    this.#text = text
    this.#name = name
    this.#hasFunction = hasFunction
    this.#tokens = lex(text)
  }

  run(): Map<string, ParsedTree> {
    const root: ListNode = { nodes: [] }
    while (this.#peek().kind !== 'eof') {
      if (this.#peek().kind === 'leftDelim' && this.#isDefine()) continue
      const node = this.#textOrAction()
      if (isEnd(node)) this.#fail(`unexpected {{${node.kind}}}`)
      root.nodes.push(node)
    }
    this.#add(this.#name, root)
    return this.#trees
  }

  // ---- tokens

  #peek(): Token {
    return this.#tokens[Math.min(this.#at, this.#tokens.length - 1)] as Token
  }

  #next(): Token {
    const token = this.#peek()
    this.#at++
    return token
  }

  #peekNonSpace(): Token {
    while (this.#peek().kind === 'space') this.#at++
    return this.#peek()
  }

  #nextNonSpace(): Token {
    this.#peekNonSpace()
    return this.#next()
  }

  #fail(message: string, position = this.#tokens[Math.max(this.#at - 1, 0)]?.position ?? 0): never {
    const { line, column } = placeOf(this.#text, position)
    throw new TemplateError(`template: ${this.#name}:${line}: ${decodeText(message)}`, {
      class: 'parse',
      line,
      column,
    })
  }

  #unexpected(token: Token, context: string): never {
    if (token.kind === 'error') this.#fail(token.value, token.position)
    this.#fail(`unexpected ${tokenText(token)} in ${context}`, token.position)
  }

  #expect(kind: TokenKind, context: string): Token {
    const token = this.#nextNonSpace()
    return token.kind === kind ? token : this.#unexpected(token, context)
  }

  #nested<T>(parse: () => T): T {
    if (++this.#nesting > MAX_NESTING) this.#fail(`nested deeper than ${MAX_NESTING}`)
    const result = parse()
    this.#nesting--
    return result
  }

  // ---- templates and blocks

  #isDefine(): boolean {
    const start = this.#at
    this.#next()
    const token = this.#nextNonSpace()
    if (token.kind !== 'keyword' || token.value !== 'define') {
      this.#at = start
      return false
    }
    const context = 'define clause'
    const name = this.#templateName(context)
    this.#expect('rightDelim', context)
    this.#add(name, this.#body(context))
    return true
  }

  #templateName(context: string): string {
    const token = this.#nextNonSpace()
    if (token.kind !== 'string' && token.kind !== 'rawString') this.#unexpected(token, context)
    return unquote(token.value) ?? this.#fail('invalid syntax')
  }

  /** The inside of a `define` or a `block`, with variables of its own, up to its `end`. */
  #body(context: string): ListNode {
    const outer = this.#scope
    this.#scope = newScope()
    const { list, end } = this.#nested(() => this.#itemList())
    if (end === 'else') this.#fail(`unexpected {{else}} in ${context}`)
    this.#scope = outer
    return list
  }

  #add(name: string, root: ListNode): void {
    const known = this.#trees.get(name)
    if (known && !isEmpty(known.root)) {
      if (!isEmpty(root)) this.#fail(`template: multiple definition of template "${name}"`)
      return
    }
    this.#trees.set(name, { name, root })
  }

  #itemList(): { list: ListNode; end: EndNode['kind'] } {
    const list: ListNode = { nodes: [] }
    while (this.#peekNonSpace().kind !== 'eof') {
      const node = this.#textOrAction()
      if (isEnd(node)) return { list, end: node.kind }
      list.nodes.push(node)
    }
    return this.#fail('unexpected EOF', this.#peek().position)
  }

  #textOrAction(): Node | EndNode {
    const token = this.#nextNonSpace()
    if (token.kind === 'text') return { kind: 'text', text: token.value, position: token.position }
    if (token.kind === 'leftDelim') return this.#action()
    return this.#unexpected(token, 'input')
  }

  #action(): Node | EndNode {
    const token = this.#nextNonSpace()
    if (token.kind === 'keyword') {
      switch (token.value) {
        case 'block':
        case 'template':
          return this.#template(token.value)
        case 'break':
        case 'continue':
          return this.#loopControl(token.value, token.position)
        case 'if':
        case 'with':
        case 'range':
          return this.#branch(token.value, token.position)
        case 'else':
          return this.#else()
        case 'end':
          this.#expect('rightDelim', 'end')
          return { kind: 'end' }
      }
    }
    this.#at--
    return { kind: 'action', position: token.position, pipe: this.#pipeline('command', 'rightDelim') }
  }

  #else(): EndNode {
    const token = this.#peekNonSpace()
    if (!isKeyword(token, 'if')) this.#expect('rightDelim', 'else')
    return { kind: 'else' }
  }

  #loopControl(kind: 'break' | 'continue', position: number): Node {
    const token = this.#nextNonSpace()
    if (token.kind !== 'rightDelim') this.#unexpected(token, `{{${kind}}}`)
    if (this.#scope.ranges === 0) this.#fail(`{{${kind}}} outside {{range}}`, position)
    return { kind, position }
  }

  #template(kind: 'block' | 'template'): Node {
    const context = `${kind} clause`
    const position = this.#peekNonSpace().position
    const name = this.#templateName(context)
    if (kind === 'template' && this.#peekNonSpace().kind === 'rightDelim') {
      this.#next()
      return { kind: 'template', position, name, pipe: undefined }
    }
    const pipe = this.#pipeline(context, 'rightDelim')
    if (kind === 'block') this.#add(name, this.#body(context))
    return { kind: 'template', position, name, pipe }
  }

  #branch(kind: 'if' | 'with' | 'range', position: number): Node {
    const declared = this.#scope.variables.length
    const pipe = this.#pipeline(kind, 'rightDelim')
    if (kind === 'range') this.#scope.ranges++
    const { list, end } = this.#nested(() => this.#itemList())
    if (kind === 'range') this.#scope.ranges--
    const elseList = end === 'else' ? this.#nested(() => this.#elseList(kind)) : undefined
    this.#scope.variables.length = declared
    return { kind, position, pipe, list, elseList }
  }

  #elseList(kind: string): ListNode {
    const token = this.#peek()
    if (kind === 'if' && isKeyword(token, 'if')) {
      this.#next()
      return { nodes: [this.#branch('if', token.position)] }
    }
    const { list, end } = this.#itemList()
    if (end !== 'end') this.#fail(`expected end; found {{${end}}}`)
    return list
  }

  // ---- pipelines

  #pipeline(context: string, end: TokenKind): PipeNode {
    const { position } = this.#peekNonSpace()
    const pipe: PipeNode = { kind: 'pipe', position, declared: [], isAssign: false, commands: [] }
    this.#declarations(pipe, context)
    for (;;) {
      const token = this.#nextNonSpace()
      if (token.kind === end) break
      if (!OPERAND_STARTS.has(token.kind) && !isKeyword(token, 'nil')) this.#unexpected(token, context)
      this.#at--
      pipe.commands.push(this.#command())
    }
    this.#check(pipe, context)
    return pipe
  }

  #declarations(pipe: PipeNode, context: string): void {
    while (this.#peekNonSpace().kind === 'variable') {
      const start = this.#at
      const name = this.#next().value
      const next = this.#peekNonSpace()
      const isComma = next.kind === 'punctuation' && next.value === ','
      if (!isComma && next.kind !== 'assign' && next.kind !== 'declare') {
        this.#at = start
        return
      }
      this.#next()
      pipe.declared.push(name)
      this.#scope.variables.push(name)
      if (!isComma) {
        pipe.isAssign = next.kind === 'assign'
        return
      }
      if (context !== 'range' || pipe.declared.length > 1) this.#fail(`too many declarations in ${context}`)
      const { kind } = this.#peekNonSpace()
      if (kind !== 'variable' && kind !== 'rightDelim' && kind !== 'rightParen') {
        this.#fail('range can only initialize variables')
      }
    }
  }

  #check(pipe: PipeNode, context: string): void {
    if (pipe.commands.length === 0) this.#fail(`missing value for ${context}`)
    for (const [stage, command] of pipe.commands.entries()) {
      const kind = command.args[0]?.kind ?? ''
      if (stage > 0 && ['bool', 'dot', 'nil', 'number', 'string'].includes(kind)) {
        this.#fail(`non executable command in pipeline stage ${stage + 1}`, command.position)
      }
    }
  }

  #command(): CommandNode {
    const command: CommandNode = { kind: 'command', position: this.#peekNonSpace().position, args: [] }
    for (;;) {
      this.#peekNonSpace()
      const operand = this.#operand()
      if (operand) command.args.push(operand)
      const token = this.#next()
      if (token.kind === 'space') continue
      if (token.kind === 'rightDelim' || token.kind === 'rightParen') this.#at--
      else if (token.kind !== 'pipe') this.#unexpected(token, 'operand')
      break
    }
    if (command.args.length === 0) this.#fail('empty command')
    return command
  }

  #operand(): Operand | undefined {
    const operand = this.#term()
    if (!operand || this.#peek().kind !== 'field') return operand
    const { position } = this.#peek()
    const fields: string[] = []
    while (this.#peek().kind === 'field') fields.push(this.#next().value.slice(1))
    switch (operand.kind) {
      case 'field':
        return { ...operand, position, names: [...operand.names, ...fields] }
      case 'variable':
        return { ...operand, position, fields }
      case 'chain':
      case 'pipe':
      case 'identifier':
        return { kind: 'chain', position, operand, fields }
      default:
        return this.#fail(`unexpected . after term ${JSON.stringify(nodeText(operand))}`, position)
    }
  }

  #term(): Operand | undefined {
    const token = this.#nextNonSpace()
    const { value, position } = token
    switch (token.kind) {
      case 'identifier':
        if (!this.#hasFunction(value)) this.#fail(`function "${value}" not defined`)
        return { kind: 'identifier', name: value, position }
      case 'dot':
        return { kind: 'dot', position }
      case 'variable':
        if (!this.#scope.variables.includes(value)) this.#fail(`undefined variable "${value}"`)
        return { kind: 'variable', name: value, fields: [], position }
      case 'field':
        return { kind: 'field', names: [value.slice(1)], position }
      case 'bool':
        return { kind: 'bool', value: value === 'true', position }
      case 'char':
        return this.#literal(parseCharacter(value, position))
      case 'number':
      case 'complex':
        return this.#literal(parseNumber(value, position))
      case 'leftParen':
        return this.#nested(() => this.#pipeline('parenthesized pipeline', 'rightParen'))
      case 'string':
      case 'rawString': {
        const text = unquote(value)
        return text === undefined
          ? this.#fail('invalid syntax')
          : { kind: 'string', quoted: value, text, position }
      }
      default:
        if (isKeyword(token, 'nil')) return { kind: 'nil', position }
        this.#at--
        return undefined
    }
  }

  #literal<T extends Operand>(parsed: T | string): T {
    return typeof parsed === 'string' ? this.#fail(parsed) : parsed
  }
}

const isEnd = (node: Node | EndNode): node is EndNode => node.kind === 'end' || node.kind === 'else'

const isKeyword = (token: Token, word: string): boolean => token.kind === 'keyword' && token.value === word

function tokenText(token: Token): string {
  if (token.kind === 'eof') return 'EOF'
  if (token.kind === 'keyword' || token.kind === 'dot') return `<${token.value}>`
  if (token.value.length > 10) return `${JSON.stringify(token.value.slice(0, 10))}...`
  return JSON.stringify(token.value)
}

/** Nothing but blank text: such a definition gives way to another of its name. */
function isEmpty(list: ListNode): boolean {
  return list.nodes.every((node) => node.kind === 'text' && node.text.trim() === '')
}
