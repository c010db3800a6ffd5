/** A scanner just good enough for imports and globals: it knows comments, strings, templates and regular expressions. */
export interface ScannedSource {
  /** As long as the source, with the content of comments, strings and regular expressions blanked. */
  code: string
  imports: ScannedImport[]
}

export interface ScannedImport {
  specifier: string
  line: number
  /** The names in braces; empty for any other form. */
  names: string[]
}

export function scanSource(source: string): ScannedSource {
  const code = blank(source)
  const imports = [...code.matchAll(IMPORT)].map((match) => {
    const quote = match.index + match[0].length - 1
    const end = source.indexOf(source[quote]!, quote + 1)
    return {
      specifier: source.slice(quote + 1, end),
      line: lineAt(source, match.index),
      names: namesIn(match[1] ?? ''),
    }
  })
  return { code, imports }
}

export function lineAt(source: string, index: number): number {
  return source.slice(0, index).split('\n').length
}

/** `… from 'x'`, `import 'x'`, `import('x')` (also as a type), `require('x')`, `import.meta.resolve('x')`. */
const IMPORT =
  /(?:\{([^{}]*)\}\s*)?\bfrom\s*['"]|\bimport\s*['"]|\b(?:import|require|import\.meta\.resolve)\s*\(\s*['"`]/g

function namesIn(braces: string): string[] {
  return braces
    .split(',')
    .map((part) => part.trim().replace(/^type\s+/, ''))
    .map((part) => part.split(/\s+as\s+/)[0]!)
    .filter((name) => name !== '')
}

/** A slash after one of these starts a regular expression; after a value it divides. */
const BEFORE_REGEX = /(?:^|[(,=:[!&|?{};+\-*%<>~\n]|\b(?:return|typeof|case|in|of))\s*$/

function blank(source: string): string {
  const out: string[] = Array.from({ length: source.length }, (_, i) => (source[i] === '\n' ? '\n' : ' '))
  /** Depth of braces in each `${…}` that is open; the last one is the innermost. */
  const templates: number[] = []
  let i = 0
  const keep = () => {
    out[i] = source[i]!
    i++
  }
  const skipPast = (end: number, length: number) => {
    i = end < 0 ? source.length : end + length
  }
  const inTemplate = () => {
    for (; i < source.length && source[i] !== '`'; i++) {
      if (source[i] === '\\') i++
      else if (source.startsWith('${', i)) {
        i += 2
        templates.push(0)
        return
      }
    }
    if (i < source.length) keep()
  }
  while (i < source.length) {
    const char = source[i]!
    if (source.startsWith('//', i)) skipPast(source.indexOf('\n', i), 0)
    else if (source.startsWith('/*', i)) skipPast(source.indexOf('*/', i + 2), 2)
    else if (char === "'" || char === '"') {
      keep()
      for (; i < source.length && source[i] !== char && source[i] !== '\n'; i++) if (source[i] === '\\') i++
      keep()
    } else if (char === '`') {
      keep()
      inTemplate()
    } else if (char === '/' && BEFORE_REGEX.test(source.slice(Math.max(0, i - 20), i))) {
      i = endOfRegex(source, i)
    } else if (char === '}' && templates.at(-1) === 0) {
      templates.pop()
      i++
      inTemplate()
    } else {
      if (char === '{' && templates.length > 0) templates[templates.length - 1]! += 1
      if (char === '}' && templates.length > 0) templates[templates.length - 1]! -= 1
      keep()
    }
  }
  return out.join('')
}

function endOfRegex(source: string, start: number): number {
  let inClass = false
  for (let i = start + 1; i < source.length && source[i] !== '\n'; i++) {
    const char = source[i]
    if (char === '\\') i++
    else if (char === '[') inClass = true
    else if (char === ']') inClass = false
    else if (char === '/' && !inClass) return i + 1
  }
  return start + 1
}
