import { describe, expect, it } from 'vitest'
import { parseTemplate, renderTemplate, TemplateError } from './index.ts'

/** Seconds of processor time, so that a busy machine does not fail the test; it takes a tenth of this. */
const MAX_SECONDS = 5

function run(template: string): { outcome: string; seconds: number } {
  const start = process.cpuUsage()
  let outcome = 'rendered'
  try {
    renderTemplate(parseTemplate(template, { name: 'hostile' }), { a: 1 }, { limits: { steps: 250_000 } })
  } catch (error) {
    if (!(error instanceof TemplateError)) throw error
    outcome = `${error.code}: ${error.message}`
  }
  const { user, system } = process.cpuUsage(start)
  return { outcome, seconds: (user + system) / 1e6 }
}

const render = (template: string, limits: object) => () =>
  renderTemplate(parseTemplate(template), undefined, { limits })

const doubling = (use: string) =>
  `{{ $l := list 1 }}{{ $m := list 1 }}{{ range until 60 }}{{ $l = list $l $l }}{{ $m = list $m $m }}{{ end }}${use}`
const many = (use: string, text: string) =>
  `{{ $s := repeat 1000000 ${text} }}{{ range until 1000 }}{{ $x := ${use} }}{{ end }}`

const level = (name: string, of: string) =>
  `${name}: &${name} [${Array.from({ length: 9 }, () => of).join(',')}]`

const STEPS = 'limit of 250000 steps'
const BYTES = 'limit of 8.0 MB'
const DEPTH = 'maximum depth (500)'

const HOSTILE: readonly [what: string, template: string, outcome: string][] = [
  ['endless recursion', '{{ define "l" }}{{ template "l" . }}{{ end }}{{ template "l" . }}', DEPTH],
  [
    'recursion that forks',
    '{{ define "f" }}{{ if gt . 0 }}{{ template "f" (int (sub . 1)) }}{{ template "f" (int (sub . 1)) }}{{ end }}{{ end }}{{ template "f" 60 }}',
    STEPS,
  ],
  ['a huge repeat', '{{ repeat 1000000000 "x" }}', BYTES],
  ['a text that doubles', '{{ $s := "x" }}{{ range until 60 }}{{ $s = print $s $s }}{{ end }}', 'exceeded'],
  ['a list that doubles, printed', doubling('{{ $l }}'), STEPS],
  ['a list that doubles, as JSON', doubling('{{ toJson $l }}'), STEPS],
  ['a list that doubles, as YAML', doubling('{{ toYaml $l }}'), STEPS],
  ['a list that doubles, compared', doubling('{{ deepEqual $l $m }}'), STEPS],
  ['a list that doubles, copied', doubling('{{ $x := deepCopy $l }}'), STEPS],
  ['a map inside itself', '{{ $d := dict }}{{ $_ := set $d "d" $d }}{{ $d }}', DEPTH],
  ['a map inside itself, as JSON', '{{ $d := dict }}{{ $_ := set $d "d" $d }}{{ toJson $d }}', DEPTH],
  ['a huge until', '{{ until 1000000000 }}', STEPS],
  ['a huge seq', '{{ seq 1 1 2000000000 }}', STEPS],
  ['a huge width', '{{ printf "%999999999999d" 1 }}', 'rendered'],
  ['many wide verbs', `{{ printf "${'%1000000d'.repeat(50)}" ${'1 '.repeat(50)} }}`, BYTES],
  ['a long precision', '{{ printf "%.1000000f" 1.5 }}', 'rendered'],
  ['a nested quantifier', '{{ regexMatch "(a+)+$" (print (repeat 5000 "a") "b") }}', 'rendered'],
  ['an ambiguous choice', '{{ regexMatch "(a|aa)*b" (repeat 20000 "a") }}', 'rendered'],
  ['counted repeats of counted repeats', '{{ regexFind "((a{0,100}){0,100}){0,100}" "a" }}', 'too large'],
  ['a search that starts over and over', '{{ regexFindAll "a.*z|a" (repeat 100000 "a") -1 }}', STEPS],
  ['a pattern of open groups', `{{ regexFind "${'('.repeat(5000)}" "x" }}`, 'nests too deeply'],
  ['a replacement at every character', '{{ replace "" (repeat 400000 "x") (repeat 400000 "y") }}', BYTES],
  ['a deep indent of many lines', '{{ indent 400000 (repeat 400000 "\\n") }}', BYTES],
  ['a long separator', '{{ join (repeat 100000 "x") (until 10000) }}', BYTES],
  ['deep parentheses', `{{ ${'('.repeat(100_000)}1${')'.repeat(100_000)} }}`, 'parse: '],
  ['deep blocks', '{{ if true }}'.repeat(50_000) + '{{ end }}'.repeat(50_000), 'parse: '],
  ['a long chain of else', `{{ if false }}${'{{ else if false }}'.repeat(20_000)}{{ end }}`, 'parse: '],
  ['very many actions', '{{ 1 }}'.repeat(150_000), 'more than 500000 tokens'],
  ['a long text', 'x'.repeat(20_000_000), BYTES],
  ['YAML that nests', `{{ fromYaml "${'['.repeat(50_000)}" }}`, DEPTH],
  ['JSON that nests', '{{ fromJson (repeat 1000000 "[") }}', 'rendered'],
  ['a version of many digits', '{{ semver (repeat 100000 "1") }}', 'out of range'],
  ['many constraints', '{{ semverCompare (print (repeat 5000 "1.1 ") "!") "1.2.3" }}', 'improper constraint'],
  ['long text to upper case', many('upper $s', '"é"'), STEPS],
  ['long text trimmed', many('trim $s', '" "'), STEPS],
  ['long text hashed', many('sha256sum $s', '"x"'), STEPS],
  ['long text encoded', many('b64enc $s | b64dec', '"x"'), STEPS],
  ['unique items of a long list', '{{ uniq (until 10000) }}', STEPS],
]

describe('a hostile template', () => {
  it.each(HOSTILE)('with %s ends in bounded time', (_, template, outcome) => {
    const done = run(template)
    expect(done.outcome).toContain(outcome)
    expect(done.seconds).toBeLessThan(MAX_SECONDS)
  })

  it('with aliases upon aliases in YAML ends in bounded time', () => {
    const yaml = ['a', 'b', 'c', 'd', 'e', 'f', 'g'].map((name, i, all) =>
      level(name, i ? `*${all[i - 1]}` : 'x'),
    )
    const done = run(`{{ fromYaml "${yaml.join('\\n')}" | toJson | len }}`)
    expect(done.outcome).toContain(STEPS)
    expect(done.seconds).toBeLessThan(MAX_SECONDS)
  })

  it('is held to the limits of the caller', () => {
    expect(render('{{ range until 200 }}{{ end }}', { steps: 100 })).toThrow('limit of 100 steps')
    expect(render('{{ repeat 20 "x" }}', { outputBytes: 10 })).toThrow('limit of 10 B')
    expect(render('xxxxxxxxxxxx', { outputBytes: 10 })).toThrow('limit of 10 B')
    expect(render('{{ list (list (list 1)) }}', { depth: 2 })).toThrow('maximum depth (2)')
  })
})
