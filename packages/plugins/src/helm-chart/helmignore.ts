/** Pure: what a `.helmignore` leaves out of the chart. Paths are relative to the chart, with `/`. */
export function helmIgnore(text: string): (path: string) => boolean {
  const rules = text
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map(ruleOf)
  return (path) => {
    if (path === 'Chart.yaml') return false
    let isOut = false
    for (const rule of rules) if (rule.matches(path)) isOut = !rule.isNegated
    return isOut
  }
}

interface Rule {
  isNegated: boolean
  matches(path: string): boolean
}

/** As Helm has it: a rule without a slash is about names, one with a slash about paths; there is no `**`. */
function ruleOf(line: string): Rule {
  const isNegated = line.startsWith('!')
  const written = isNegated ? line.slice(1) : line
  const pattern = written.replace(/\/$/, '')
  const isPath = pattern.includes('/')
  const expression = globExpression(pattern.replace(/^\//, ''))
  return { isNegated, matches: (path) => expression.test(isPath ? path : (path.split('/').at(-1) ?? '')) }
}

function globExpression(glob: string): RegExp {
  const source = glob.replaceAll(/[.+^${}()|\\]|\*|\?/g, (char) => {
    if (char === '*') return '[^/]*'
    return char === '?' ? '[^/]' : `\\${char}`
  })
  try {
    return new RegExp(`^${source}$`)
  } catch {
    // A bracket that is never closed: the name is meant as it is written.
    return new RegExp(`^${glob.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`)}$`)
  }
}
