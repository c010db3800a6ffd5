import type { Value } from '../values/values.ts'

/** A place in a template: an offset in bytes. */
interface At {
  readonly position: number
}

export interface ListNode {
  readonly nodes: Node[]
}

export interface TextNode extends At {
  readonly kind: 'text'
  readonly text: string
}

export interface ActionNode extends At {
  readonly kind: 'action'
  readonly pipe: PipeNode
}

export interface BranchNode extends At {
  readonly kind: 'if' | 'with' | 'range'
  readonly pipe: PipeNode
  readonly list: ListNode
  readonly elseList: ListNode | undefined
}

export interface TemplateNode extends At {
  readonly kind: 'template'
  readonly name: string
  readonly pipe: PipeNode | undefined
}

export interface LoopNode extends At {
  readonly kind: 'break' | 'continue'
}

export type Node = TextNode | ActionNode | BranchNode | TemplateNode | LoopNode

export interface PipeNode extends At {
  readonly kind: 'pipe'
  readonly declared: string[]
  isAssign: boolean
  readonly commands: CommandNode[]
}

export interface CommandNode extends At {
  readonly kind: 'command'
  readonly args: Operand[]
}

export interface FieldNode extends At {
  readonly kind: 'field'
  readonly names: readonly string[]
}

export interface VariableNode extends At {
  readonly kind: 'variable'
  readonly name: string
  readonly fields: readonly string[]
}

export interface ChainNode extends At {
  readonly kind: 'chain'
  readonly operand: Operand
  readonly fields: readonly string[]
}

export interface IdentifierNode extends At {
  readonly kind: 'identifier'
  readonly name: string
}

export interface NumberNode extends At {
  readonly kind: 'number'
  readonly text: string
  /** What the literal is by itself; undefined when it overflows an int. */
  readonly ideal: Value
  readonly integer: bigint | undefined
  readonly float: number | undefined
}

export interface StringNode extends At {
  readonly kind: 'string'
  readonly quoted: string
  readonly text: string
}

export interface BoolNode extends At {
  readonly kind: 'bool'
  readonly value: boolean
}

export interface PlainNode extends At {
  readonly kind: 'dot' | 'nil'
}

export type Operand =
  | FieldNode
  | VariableNode
  | ChainNode
  | IdentifierNode
  | NumberNode
  | StringNode
  | BoolNode
  | PlainNode
  | PipeNode

/** Anything an error may point at. */
export type AnyNode = Node | PipeNode | CommandNode | Operand

const dotted = (fields: readonly string[]): string => fields.map((field) => `.${field}`).join('')

/** A node as Go writes it in its messages. */
export function nodeText(node: AnyNode): string {
  switch (node.kind) {
    case 'dot':
      return '.'
    case 'nil':
      return 'nil'
    case 'bool':
      return String(node.value)
    case 'number':
      return node.text
    case 'string':
      return node.quoted
    case 'identifier':
      return node.name
    case 'field':
      return dotted(node.names)
    case 'variable':
      return node.name + dotted(node.fields)
    case 'chain':
      return inParens(node.operand) + dotted(node.fields)
    case 'command':
      return node.args.map(inParens).join(' ')
    case 'pipe':
      return pipeText(node)
    case 'template':
      return `{{template ${JSON.stringify(node.name)}${node.pipe ? ` ${pipeText(node.pipe)}` : ''}}}`
    case 'action':
    case 'if':
    case 'with':
    case 'range':
      return pipeText(node.pipe)
    case 'text':
      return JSON.stringify(node.text)
    case 'break':
    case 'continue':
      return `{{${node.kind}}}`
  }
}

function inParens(node: Operand): string {
  return node.kind === 'pipe' ? `(${pipeText(node)})` : nodeText(node)
}

function pipeText(pipe: PipeNode): string {
  const declared = pipe.declared.length ? `${pipe.declared.join(', ')} ${pipe.isAssign ? '=' : ':='} ` : ''
  return declared + pipe.commands.map(nodeText).join(' | ')
}
