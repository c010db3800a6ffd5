import fc from 'fast-check'
import { parse } from 'smol-toml'
import { describe, expect, it } from 'vitest'
import { TomlPlaces } from './locate.ts'

const text = `# comment
name = "x"
script = """
name = "not here"
[steps]
"""
a.b = 1

[settings.deep]
  port = 80

[[steps]]
name = "one"
[[steps]]
name = "two"
[[steps.probes]]
url = 'u'
[steps.env]
"odd key" = { x = 1, y = [ 2, { z = "\\u00e9{{" } ] }
last = ["a", # why
  "b"]
`

describe('the place of a value', () => {
  it.each([
    [['name'], 2, 1],
    [['a', 'b'], 7, 1],
    [['settings', 'deep', 'port'], 10, 3],
    [['steps', 0, 'name'], 13, 1],
    [['steps', 1, 'name'], 15, 1],
    [['steps', 1, 'probes', 0, 'url'], 17, 1],
    [['steps', 1, 'env', 'odd key', 'x'], 19, 15],
    [['steps', 1, 'env', 'odd key', 'y', 1, 'z'], 19, 33],
    [['steps', 1, 'env', 'last', 1], 21, 3],
    [['settings', 'deep', 'absent'], 9, 1],
    [['absent'], 1, 1],
  ])('of %j is line %i, column %i', (path, line, column) => {
    expect(new TomlPlaces(text).key(path)).toEqual({ line, column })
  })
})

describe('the place inside a string', () => {
  const strings = `a = "x{{ y"
b = """
one
  two {{ y
"""
c = "\\tq\\u0041{{"
d = '''a
b{{'''
e = """\\
   folded {{"""
f = "one\\ntwo {{"
`
  it.each([
    ['a', 1, 7],
    ['b', 4, 7],
    ['c', 6, 15],
    ['d', 8, 2],
    ['e', 10, 11],
    ['f', 11, 15],
  ])('%s of what it holds is line %i, column %i', (key, line, column) => {
    const value = (parse(strings) as Record<string, string>)[key]!
    const before = value.slice(0, value.indexOf('{{')).split('\n')
    const inside = { line: before.length, column: before.at(-1)!.length + 1 }
    expect(new TomlPlaces(strings).inString([key], inside)).toEqual({ line, column })
  })
})

describe('any text', () => {
  it('is read to its end', () => {
    const piece = fc.constantFrom(
      '[',
      ']',
      '[[',
      '{',
      '}',
      '"',
      '"""',
      "'''",
      "'",
      '=',
      ',',
      '.',
      'a',
      '#',
      '\n',
      '\\',
      '1',
    )
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 40 }), (pieces) => {
        expect(new TomlPlaces(pieces.join('')).key(['a']).line).toBeGreaterThan(0)
      }),
      { numRuns: 2000 },
    )
  })
})
