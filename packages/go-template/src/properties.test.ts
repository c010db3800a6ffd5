import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { encodeText } from './values/bytes.ts'
import { Budget } from './budget.ts'
import { parseTemplate, renderTemplate, TemplateError, templateReferences } from './index.ts'
import { ALL_FUNCTIONS } from './functions/registry.ts'
import { Regex } from './regex/match.ts'

const LIMITS = { steps: 20_000, depth: 50, outputBytes: 100_000 }

/** Text, bytes, or a TemplateError: anything else is thrown on. */
function outcome(template: string, data: unknown): unknown {
  try {
    return renderTemplate(parseTemplate(template), data, { limits: LIMITS })
  } catch (error) {
    if (error instanceof TemplateError) return error
    throw error
  }
}

/** Written with blanks between them, as they stand in templates. */
const PIECES = [
  '{{ }} {{- -}} | ( ) . .a .b.c $ $x := = , if else end range with define template block break continue nil',
  '"a" "%5.2f" `b` \'c\' 1 -2.5 0x1F 1i true /* */ text',
]
  .flatMap((line) => line.split(' '))
  .concat('\n', ' ')

function referencesOf(template: string): string[][] {
  try {
    return templateReferences(parseTemplate(template)).all
  } catch (error) {
    if (error instanceof TemplateError) return []
    throw error
  }
}

const soup = fc.array(fc.oneof(fc.constantFrom(...PIECES), fc.string({ maxLength: 3 })), { maxLength: 25 })
const LITERALS = String.raw`nil; ""; "a"; "-1"; "é\xff"; 0; 1; -1; 3; 1.5; true; .; .a; .b; .b.c; (list); (dict);
(list 1 "b" nil); (dict "k" "v"); (until 3); (splitList "," "b,a"); (semver "1.2.3"); "^1.2"; "(a|b)+"; "%s";
"a: [1, {b: c}]"; "{\"a\":1}"; 9223372036854775807`
const literal = fc.constantFrom(...LITERALS.split(/;\s+/))
const call = fc
  .tuple(fc.constantFrom(...Object.keys(ALL_FUNCTIONS)), fc.array(literal, { maxLength: 4 }))
  .map(([name, args]) => `${[name, ...args].join(' ')}`)

describe('any template', () => {
  it('made of any text gives text, bytes or a TemplateError', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 60 }), fc.json(), (text, json) => {
        expect(outcome(text, JSON.parse(json))).toBeDefined()
        expect(outcome(`{{ ${text} }}`, JSON.parse(json))).toBeDefined()
      }),
      { numRuns: 1000 },
    )
  })

  it('made of the parts of templates gives text, bytes or a TemplateError with a place', () => {
    fc.assert(
      fc.property(soup, (pieces) => {
        const text = pieces.join(' ')
        const given = outcome(text, { a: [1, 'x'], b: { c: null } })
        if (!(given instanceof TemplateError)) return
        expect(given.line).toBeGreaterThanOrEqual(1)
        expect(given.line).toBeLessThanOrEqual(text.split('\n').length)
        expect(given.column).toBeGreaterThanOrEqual(1)
      }),
      { numRuns: 3000 },
    )
  })

  it('that calls any function with any arguments gives text, bytes or a TemplateError', () => {
    fc.assert(
      fc.property(fc.array(call, { minLength: 1, maxLength: 3 }), (calls) => {
        expect(outcome(`{{ ${calls.join(' | ')} }}`, { a: [1, 'x'], b: { c: null } })).toBeDefined()
      }),
      { numRuns: 6000 },
    )
  })

  it('without actions gives itself', () => {
    const text = fc.string({ unit: 'grapheme' }).filter((value) => !value.includes('{{'))
    fc.assert(
      fc.property(text, (value) => {
        expect(outcome(value, null)).toBe(value)
      }),
    )
  })
})

describe('any data', () => {
  it('comes back from JSON as it went in, and is never changed', () => {
    fc.assert(
      fc.property(fc.json({ maxDepth: 4 }), (json) => {
        const data: unknown = JSON.parse(json)
        const template = '{{ $o := dict "v" .v }}{{ $_ := set . "added" 1 }}{{ toRawJson $o.v }}'
        const output = renderTemplate(parseTemplate(template), { v: data })
        expect(JSON.parse(String(output))).toEqual(data)
        expect(JSON.stringify(data)).toBe(JSON.stringify(JSON.parse(json)))
      }),
    )
  })

  it('comes back from YAML as it went in', () => {
    const text = fc.string({ unit: fc.constantFrom(...'ab1 -:#\'"\\\n,[]{}é&*!|>%@?~'), maxLength: 12 })
    const value = fc.letrec((tie) => ({
      node: fc.oneof(
        { maxDepth: 3 },
        text,
        fc.integer(),
        fc.boolean(),
        fc.constant(null),
        tie('list'),
        tie('map'),
      ),
      list: fc.array(tie('node'), { maxLength: 3 }),
      map: fc.dictionary(fc.stringMatching(/^[a-z0-9]{1,4}$/), tie('node'), { maxKeys: 3 }),
    })).map
    fc.assert(
      fc.property(value, (data) => {
        const output = renderTemplate(parseTemplate('{{ print (toYaml .) "\\n" | fromYaml | toJson }}'), data)
        expect(JSON.parse(String(output))).toEqual(data)
      }),
      { numRuns: 500 },
    )
  })
})

describe('any regular expression', () => {
  it('that both sides understand finds what JavaScript finds', () => {
    const atom = fc.constantFrom('a', 'b', '.', '[ab]', '[^a]', '(a|b)', '(ab)', '(?:b)', '^', '$', '\\b')
    const part = fc
      .tuple(atom, fc.constantFrom('', '', '*', '+', '?', '*?', '{1,2}'))
      .map(([one, count]) => (/^[\^$\\]/.test(one) ? one : one + count))
    const pattern = fc.array(part, { maxLength: 5 }).map((parts) => parts.join(''))
    fc.assert(
      fc.property(
        pattern,
        fc.string({ unit: fc.constantFrom('a', 'b', 'c', ' '), maxLength: 10 }),
        (source, text) => {
          const wanted = new RegExp(source, 's').exec(text)
          const found = new Regex(new Budget(), encodeText(source.replaceAll('.', '(?s:.)'))).find(text)
          expect(found?.slice(0, 2)).toEqual(
            wanted ? [wanted.index, wanted.index + wanted[0].length] : undefined,
          )
        },
      ),
      { numRuns: 2000 },
    )
  })
})

describe('the references of any template', () => {
  it('are found in bounded time', () => {
    fc.assert(
      fc.property(soup, (pieces) => {
        expect(referencesOf(pieces.join(' '))).toBeInstanceOf(Array)
      }),
      { numRuns: 1000 },
    )
  })
})
