import type { Json } from '@tenon/core'

type Values = { [name: string]: Json }

/** What a module says of the types of its variables, as far as its text shows. */
export function declaredTypes(sources: readonly string[]): Map<string, string> {
  const types = new Map<string, string>()
  for (const source of sources) {
    for (const match of source.matchAll(/^\s*variable\s+"([^"]+)"\s*\{/gm)) {
      const block = blockAt(source, match.index + match[0].length)
      const type = /^\s*type\s*=\s*"?([a-z]+)/m.exec(block)?.[1]
      if (match[1] !== undefined && type !== undefined) types.set(match[1], type)
    }
  }
  return types
}

/**
 * A template gives text; a list or object that was rendered as JSON is given as what it is where the module
 * declares such a type. Text for numbers and booleans Terraform converts itself.
 */
export function typedVars(vars: Values, types: ReadonlyMap<string, string>): Values {
  const entries = Object.entries(vars).map(([name, value]) => {
    const type = types.get(name)
    if (typeof value !== 'string' || type === undefined || type === 'string') return [name, value] as const
    return [name, parsed(value)] as const
  })
  return Object.fromEntries(entries)
}

function parsed(text: string): Json {
  if (!/^\s*[[{]/.test(text)) return text
  try {
    return JSON.parse(text) as Json
  } catch {
    return text
  }
}

function blockAt(source: string, start: number): string {
  let depth = 1
  let at = start
  for (; at < source.length && depth > 0; at += 1) {
    if (source[at] === '{') depth += 1
    if (source[at] === '}') depth -= 1
  }
  return source.slice(start, at)
}
