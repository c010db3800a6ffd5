export interface Place {
  line: number
  column: number
}

type Key = string | number

/**
 * Where a value stands in TOML text, by the keys that lead to it; the nearest thing above it when it is absent.
 * Reads line by line, skipping multi-line strings: enough to point, the parser decides what is valid.
 */
export function locate(text: string, path: readonly Key[]): Place {
  let best: Place & { depth: number } = { line: 1, column: 1, depth: 0 }
  let table: Key[] = []
  const counts = new Map<string, number>()
  for (const [index, line] of significantLines(text)) {
    const header = /^\s*(\[\[?)\s*([^\]]+?)\s*\]/.exec(line)
    if (header) {
      const keys = splitKeys(header[2]!)
      table = header[1] === '[[' ? [...keys, countUp(counts, keys.join('\u0000'))] : keys
      consider(table, line.search(/\S/), index)
      continue
    }
    const assignment = /^(\s*)((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=/.exec(
      line,
    )
    if (assignment) consider([...table, ...splitKeys(assignment[2]!)], assignment[1]!.length, index)
  }
  return { line: best.line, column: best.column }

  function consider(keys: readonly Key[], column: number, index: number): void {
    const depth = keys.length
    const leads = depth <= path.length && keys.every((key, i) => String(key) === String(path[i]))
    if (leads && depth > best.depth) best = { line: index + 1, column: column + 1, depth }
  }
}

function* significantLines(text: string): Generator<[number, string]> {
  let closing: string | undefined
  for (const [index, line] of text.split('\n').entries()) {
    if (closing !== undefined) {
      if (line.includes(closing)) closing = undefined
      continue
    }
    yield [index, line]
    const opened = /"""|'''/.exec(line)?.[0]
    if (opened && line.split(opened).length % 2 === 0) closing = opened
  }
}

function splitKeys(keys: string): Key[] {
  return [...keys.matchAll(/"([^"]*)"|'([^']*)'|([\w-]+)/g)].map((m) => m[1] ?? m[2] ?? m[3] ?? '')
}

function countUp(counts: Map<string, number>, key: string): number {
  const index = counts.get(key) ?? 0
  counts.set(key, index + 1)
  return index
}
