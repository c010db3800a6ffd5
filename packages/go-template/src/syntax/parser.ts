import { unquote } from './literals.ts'
import type { ListNode, Node } from './nodes.ts'
import { PipelineParser } from './pipeline-parser.ts'
import { isKeyword, TokenCursor } from './token-cursor.ts'

export interface ParsedTree {
  readonly name: string
  readonly root: ListNode
}

interface EndNode {
  kind: 'end' | 'else'
}

/** Parses a byte string into the trees it defines, its own among them. */
export function parseTrees(
  text: string,
  name: string,
  hasFunction: (name: string) => boolean,
): Map<string, ParsedTree> {
  return new Parser(text, name, hasFunction).run()
}

class Parser {
  readonly #name: string
  readonly #cursor: TokenCursor
  readonly #pipelines: PipelineParser
  readonly #trees = new Map<string, ParsedTree>()
  #ranges = 0

  constructor(text: string, name: string, hasFunction: (name: string) => boolean) {
    this.#name = name
    this.#cursor = new TokenCursor(text, name)
    this.#pipelines = new PipelineParser(this.#cursor, hasFunction)
  }

  run(): Map<string, ParsedTree> {
    const root: ListNode = { nodes: [] }
    while (this.#cursor.peek().kind !== 'eof') {
      if (this.#cursor.peek().kind === 'leftDelim' && this.#isDefine()) continue
      const node = this.#textOrAction()
      if (isEnd(node)) this.#cursor.fail(`unexpected {{${node.kind}}}`)
      root.nodes.push(node)
    }
    this.#add(this.#name, root)
    return this.#trees
  }

  #isDefine(): boolean {
    const start = this.#cursor.at
    this.#cursor.next()
    const token = this.#cursor.nextNonSpace()
    if (token.kind !== 'keyword' || token.value !== 'define') {
      this.#cursor.backTo(start)
      return false
    }
    const context = 'define clause'
    const name = this.#templateName(context)
    this.#cursor.expect('rightDelim', context)
    this.#add(name, this.#body(context))
    return true
  }

  #templateName(context: string): string {
    const token = this.#cursor.nextNonSpace()
    if (token.kind !== 'string' && token.kind !== 'rawString') this.#cursor.unexpected(token, context)
    return unquote(token.value) ?? this.#cursor.fail('invalid syntax')
  }

  /** The inside of a `define` or a `block`, with variables of its own, up to its `end`. */
  #body(context: string): ListNode {
    const outer = { variables: this.#pipelines.variables, ranges: this.#ranges }
    this.#pipelines.variables = ['$']
    this.#ranges = 0
    const { list, end } = this.#cursor.nested(() => this.#itemList())
    if (end === 'else') this.#cursor.fail(`unexpected {{else}} in ${context}`)
    this.#pipelines.variables = outer.variables
    this.#ranges = outer.ranges
    return list
  }

  #add(name: string, root: ListNode): void {
    const known = this.#trees.get(name)
    if (known && !isEmpty(known.root)) {
      if (!isEmpty(root)) this.#cursor.fail(`template: multiple definition of template "${name}"`)
      return
    }
    this.#trees.set(name, { name, root })
  }

  #itemList(): { list: ListNode; end: EndNode['kind'] } {
    const list: ListNode = { nodes: [] }
    while (this.#cursor.peekNonSpace().kind !== 'eof') {
      const node = this.#textOrAction()
      if (isEnd(node)) return { list, end: node.kind }
      list.nodes.push(node)
    }
    return this.#cursor.fail('unexpected EOF', this.#cursor.peek().position)
  }

  #textOrAction(): Node | EndNode {
    const token = this.#cursor.nextNonSpace()
    if (token.kind === 'text') return { kind: 'text', text: token.value, position: token.position }
    if (token.kind === 'leftDelim') return this.#action()
    return this.#cursor.unexpected(token, 'input')
  }

  #action(): Node | EndNode {
    const token = this.#cursor.nextNonSpace()
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
          this.#cursor.expect('rightDelim', 'end')
          return { kind: 'end' }
      }
    }
    this.#cursor.backUp()
    return { kind: 'action', position: token.position, pipe: this.#pipelines.parse('command', 'rightDelim') }
  }

  #else(): EndNode {
    const token = this.#cursor.peekNonSpace()
    if (!isKeyword(token, 'if')) this.#cursor.expect('rightDelim', 'else')
    return { kind: 'else' }
  }

  #loopControl(kind: 'break' | 'continue', position: number): Node {
    const token = this.#cursor.nextNonSpace()
    if (token.kind !== 'rightDelim') this.#cursor.unexpected(token, `{{${kind}}}`)
    if (this.#ranges === 0) this.#cursor.fail(`{{${kind}}} outside {{range}}`, position)
    return { kind, position }
  }

  #template(kind: 'block' | 'template'): Node {
    const context = `${kind} clause`
    const position = this.#cursor.peekNonSpace().position
    const name = this.#templateName(context)
    if (kind === 'template' && this.#cursor.peekNonSpace().kind === 'rightDelim') {
      this.#cursor.next()
      return { kind: 'template', position, name, pipe: undefined }
    }
    const pipe = this.#pipelines.parse(context, 'rightDelim')
    if (kind === 'block') this.#add(name, this.#body(context))
    return { kind: 'template', position, name, pipe }
  }

  #branch(kind: 'if' | 'with' | 'range', position: number): Node {
    const declared = this.#pipelines.variables.length
    const pipe = this.#pipelines.parse(kind, 'rightDelim')
    if (kind === 'range') this.#ranges++
    const { list, end } = this.#cursor.nested(() => this.#itemList())
    if (kind === 'range') this.#ranges--
    const elseList = end === 'else' ? this.#cursor.nested(() => this.#elseList(kind)) : undefined
    this.#pipelines.variables.length = declared
    return { kind, position, pipe, list, elseList }
  }

  #elseList(kind: string): ListNode {
    const token = this.#cursor.peek()
    if (kind === 'if' && isKeyword(token, 'if')) {
      this.#cursor.next()
      return { nodes: [this.#branch('if', token.position)] }
    }
    const { list, end } = this.#itemList()
    if (end !== 'end') this.#cursor.fail(`expected end; found {{${end}}}`)
    return list
  }
}

const isEnd = (node: Node | EndNode): node is EndNode => node.kind === 'end' || node.kind === 'else'

/** Nothing but blank text: such a definition gives way to another of its name. */
function isEmpty(list: ListNode): boolean {
  return list.nodes.every((node) => node.kind === 'text' && node.text.trim() === '')
}
