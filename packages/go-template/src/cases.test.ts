import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { type MissingKey, parseTemplate, renderTemplate, TemplateError } from './index.ts'

interface Case {
  name: string
  template: string
  data?: unknown
  missingkey?: MissingKey
  output?: string
  outputBase64?: string
  error?: { class: 'parse' | 'exec'; message: string }
}

/** Made with Go 1.19.8, Sprig 3.2.3 and sigs.k8s.io/yaml 1.3.0. */
const CASES = JSON.parse(readFileSync(new URL('./cases.json', import.meta.url), 'utf8')) as Case[]

/** Cases that may differ, each with its reason. */
const DIFFERENT: Readonly<Record<string, string>> = {}

/** Errors whose words differ from Go's, each with its reason. Their class is the same. */
const OTHER_WORDS: Readonly<Record<string, string>> = {
  'define/recursion-endless': 'the depth is ours: 500, not 100,000',
  'range/error-inside-names-place': 'an element is named by its own type, not as an interface',
}

const family = ({ name }: Case): string => name.split('/')[0] ?? ''

function result({ template, data, missingkey }: Case): Pick<Case, 'output' | 'outputBase64' | 'error'> {
  try {
    const parsed = parseTemplate(template, { name: 'case' })
    const output = renderTemplate(parsed, data, missingkey ? { missingKey: missingkey } : {})
    if (typeof output === 'string') return { output }
    return { outputBase64: Buffer.from(output).toString('base64') }
  } catch (error) {
    if (error instanceof TemplateError)
      return { error: { class: error.code === 'parse' ? 'parse' : 'exec', message: error.message } }
    throw error
  }
}

function expected({ output, outputBase64, error }: Case): Pick<Case, 'output' | 'outputBase64' | 'error'> {
  if (error) return { error }
  return outputBase64 === undefined ? { output: output ?? '' } : { outputBase64 }
}

const classOnly = (given: ReturnType<typeof result>): object =>
  given.error ? { error: given.error.class } : given

describe('what real Go and Sprig give', () => {
  it('is 3,241 cases, of which less than one in a hundred may differ', () => {
    expect(CASES).toHaveLength(3241)
    expect(Object.keys(DIFFERENT).length).toBeLessThan(32)
  })

  for (const name of new Set(CASES.map(family))) {
    it(`is given for every case of ${name}, with the same class of error`, () => {
      const cases = CASES.filter((one) => family(one) === name && !(one.name in DIFFERENT))
      const wrong = cases.flatMap((one) => {
        const [got, want] = [classOnly(result(one)), classOnly(expected(one))]
        return JSON.stringify(got) === JSON.stringify(want) ? [] : [{ name: one.name, got, want }]
      })
      expect(wrong).toEqual([])
    })
  }

  it('is also said in the words of Go when it is an error', () => {
    const failing = CASES.filter((one) => one.error && !(one.name in OTHER_WORDS))
    expect(failing.length).toBeGreaterThan(700)
    const said = failing.map((one) => `${one.name}: ${result(one).error?.message}`)
    expect(said).toEqual(failing.map((one) => `${one.name}: ${one.error?.message}`))
  })
})
