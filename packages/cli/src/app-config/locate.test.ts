import { describe, expect, it } from 'vitest'
import { locate } from './locate.ts'

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
`

describe('the place of a value', () => {
  it.each([
    [['name'], 2, 1],
    [['a', 'b'], 7, 1],
    [['settings', 'deep', 'port'], 10, 3],
    [['steps', 0, 'name'], 13, 1],
    [['steps', 1, 'name'], 15, 1],
    [['settings', 'deep', 'absent'], 9, 1],
    [['absent'], 1, 1],
  ])('of %j is line %i, column %i', (path, line, column) => {
    expect(locate(text, path)).toEqual({ line, column })
  })
})
