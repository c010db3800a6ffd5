import type { TokenKind } from './tokens.ts'
import { parseCharacter, parseNumber, unquote } from './literals.ts'
import { type CommandNode, nodeText, type Operand, type PipeNode } from './nodes.ts'
import { isKeyword, type TokenCursor } from './token-cursor.ts'

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

/** Parses what stands between the delimiters: declarations, commands, operands. */
export class PipelineParser {
  /** The variables in scope. */
  variables = ['$']
  readonly #cursor: TokenCursor
  readonly #hasFunction: (name: string) => boolean

  constructor(cursor: TokenCursor, hasFunction: (name: string) => boolean) {
    this.#cursor = cursor
    this.#hasFunction = hasFunction
  }

  parse(context: string, end: TokenKind): PipeNode {
    const { position } = this.#cursor.peekNonSpace()
    const pipe: PipeNode = { kind: 'pipe', position, declared: [], isAssign: false, commands: [] }
    this.#declarations(pipe, context)
    for (;;) {
      const token = this.#cursor.nextNonSpace()
      if (token.kind === end) break
      if (!OPERAND_STARTS.has(token.kind) && !isKeyword(token, 'nil')) this.#cursor.unexpected(token, context)
      this.#cursor.backUp()
      pipe.commands.push(this.#command())
    }
    this.#check(pipe, context)
    return pipe
  }

  #declarations(pipe: PipeNode, context: string): void {
    while (this.#cursor.peekNonSpace().kind === 'variable') {
      const start = this.#cursor.at
      const name = this.#cursor.next().value
      const next = this.#cursor.peekNonSpace()
      const isComma = next.kind === 'punctuation' && next.value === ','
      if (!isComma && next.kind !== 'assign' && next.kind !== 'declare') {
        this.#cursor.backTo(start)
        return
      }
      this.#cursor.next()
      pipe.declared.push(name)
      this.variables.push(name)
      if (!isComma) {
        pipe.isAssign = next.kind === 'assign'
        return
      }
      if (context !== 'range' || pipe.declared.length > 1)
        this.#cursor.fail(`too many declarations in ${context}`)
      const { kind } = this.#cursor.peekNonSpace()
      if (kind !== 'variable' && kind !== 'rightDelim' && kind !== 'rightParen') {
        this.#cursor.fail('range can only initialize variables')
      }
    }
  }

  #check(pipe: PipeNode, context: string): void {
    if (pipe.commands.length === 0) this.#cursor.fail(`missing value for ${context}`)
    for (const [stage, command] of pipe.commands.entries()) {
      const kind = command.args[0]?.kind ?? ''
      if (stage > 0 && ['bool', 'dot', 'nil', 'number', 'string'].includes(kind)) {
        this.#cursor.fail(`non executable command in pipeline stage ${stage + 1}`, command.position)
      }
    }
  }

  #command(): CommandNode {
    const command: CommandNode = { kind: 'command', position: this.#cursor.peekNonSpace().position, args: [] }
    for (;;) {
      this.#cursor.peekNonSpace()
      const operand = this.#operand()
      if (operand) command.args.push(operand)
      const token = this.#cursor.next()
      if (token.kind === 'space') continue
      if (token.kind === 'rightDelim' || token.kind === 'rightParen') this.#cursor.backUp()
      else if (token.kind !== 'pipe') this.#cursor.unexpected(token, 'operand')
      break
    }
    if (command.args.length === 0) this.#cursor.fail('empty command')
    return command
  }

  #operand(): Operand | undefined {
    const operand = this.#term()
    if (!operand || this.#cursor.peek().kind !== 'field') return operand
    const { position } = this.#cursor.peek()
    const fields: string[] = []
    while (this.#cursor.peek().kind === 'field') fields.push(this.#cursor.next().value.slice(1))
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
        return this.#cursor.fail(`unexpected . after term ${JSON.stringify(nodeText(operand))}`, position)
    }
  }

  #term(): Operand | undefined {
    const token = this.#cursor.nextNonSpace()
    const { value, position } = token
    switch (token.kind) {
      case 'identifier':
        if (!this.#hasFunction(value)) this.#cursor.fail(`function "${value}" not defined`)
        return { kind: 'identifier', name: value, position }
      case 'dot':
        return { kind: 'dot', position }
      case 'variable':
        if (!this.variables.includes(value)) this.#cursor.fail(`undefined variable "${value}"`)
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
        return this.#cursor.nested(() => this.parse('parenthesized pipeline', 'rightParen'))
      case 'string':
      case 'rawString': {
        const text = unquote(value)
        return text === undefined
          ? this.#cursor.fail('invalid syntax')
          : { kind: 'string', quoted: value, text, position }
      }
      default:
        if (isKeyword(token, 'nil')) return { kind: 'nil', position }
        this.#cursor.backUp()
        return undefined
    }
  }

  #literal<T extends Operand>(parsed: T | string): T {
    return typeof parsed === 'string' ? this.#cursor.fail(parsed) : parsed
  }
}
