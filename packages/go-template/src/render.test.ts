import { describe, expect, it } from 'vitest'
import { parseTemplate, renderTemplate, renderText, TemplateError, textFunction } from './index.ts'

function errorOf(run: () => unknown): TemplateError {
  try {
    run()
  } catch (error) {
    if (error instanceof TemplateError) return error
  }
  throw new Error('no TemplateError was thrown')
}

describe('an error', () => {
  it('of code parse has the line and the column of what is wrong, counted from 1', () => {
    const error = errorOf(() => parseTemplate('one\n  é {{ brew 1 }}', { name: 'values.yaml' }))
    expect(error).toMatchObject({ code: 'parse', line: 2, column: 8 })
    expect(error.message).toBe('template: values.yaml:2: function "brew" not defined')
  })

  it('of code exec has the place of the value that is wrong', () => {
    const template = parseTemplate('a: {{ .a }}\nb: {{ upper .b }}', { name: 'values.yaml' })
    const error = errorOf(() => renderTemplate(template, { a: 1, b: 2 }))
    expect(error).toMatchObject({ code: 'exec', line: 2, column: 13 })
    expect(error.message).toContain('values.yaml:2:12: executing "values.yaml" at <.b>: wrong type for value')
  })
})

describe('rendering', () => {
  it('tells a limit from what is wrong, whatever a message says', () => {
    const codeOf = (text: string) =>
      errorOf(() => renderTemplate(parseTemplate(text), {}, { limits: { steps: 10 } })).code
    expect(codeOf('{{ until 1000 }}')).toBe('limit')
    expect(codeOf('{{ fail "x: exceeded the limit" }}')).toBe('exec')
  })

  it('leaves the data as it is, though a template writes into it', () => {
    const data = { m: { a: 1 }, l: [{ b: 2 }] }
    const template = parseTemplate('{{ $_ := set .m "x" 1 }}{{ $_ := set (first .l) "y" 1 }}{{ toJson . }}')
    expect(renderTemplate(template, data)).toBe('{"l":[{"b":2,"y":1}],"m":{"a":1,"x":1}}')
    expect(data).toEqual({ m: { a: 1 }, l: [{ b: 2 }] })
  })

  it('gives bytes when the output is not UTF-8, which is refused where text is needed', () => {
    const template = parseTemplate('{{ trunc 2 "né" }}')
    expect(renderTemplate(template, undefined)).toEqual(new Uint8Array([0x6e, 0xc3]))
    expect(errorOf(() => renderText(template, undefined)).code).toBe('not_text')
    expect(renderText(parseTemplate('né'), undefined)).toBe('né')
  })

  it('treats a missing key as it is told', () => {
    const template = parseTemplate('{{ .a.b }}')
    expect(renderTemplate(template, { a: {} })).toBe('<no value>')
    expect(() => renderTemplate(template, { a: {} }, { missingKey: 'error' })).toThrow('no entry for key "b"')
  })

  it('reads no member that the data only inherits', () => {
    const template = parseTemplate('{{ .constructor }} {{ .__proto__ }} {{ hasKey . "toString" }}')
    expect(renderTemplate(template, {})).toBe('<no value> <no value> false')
  })

  it('knows functions that are given to it', () => {
    const functions = { shout: textFunction(1, (text) => `${text.toUpperCase()}!`) }
    const template = parseTemplate('{{ shout .a }}', { functions })
    expect(renderTemplate(template, { a: 'thé' })).toBe('THÉ!')
    const hoarse = {
      shout: textFunction(1, () => {
        throw new Error('no voice')
      }),
    }
    expect(() => renderTemplate(template, { a: 'thé' }, { functions: hoarse })).toThrow(
      'error calling shout: no voice',
    )
  })

  it('ends with a TemplateError for data inside itself and for a method of nothing', () => {
    const circle: unknown[] = []
    circle.push(circle)
    expect(errorOf(() => renderTemplate(parseTemplate('{{ . }}'), circle)).code).toBe('limit')
    const template = parseTemplate('{{ (semver "1.0.0").Compare nil }}')
    expect(errorOf(() => renderTemplate(template, null)).message).toContain('nil pointer')
  })

  it('of one template may be done any number of times', () => {
    const template = parseTemplate('{{ $n := 0 }}{{ range .l }}{{ $n = add $n . }}{{ end }}{{ $n }}')
    expect([[1, 2], [3], []].map((l) => renderTemplate(template, { l }))).toEqual(['3', '3', '0'])
  })
})
