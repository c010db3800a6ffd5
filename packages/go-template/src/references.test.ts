import { describe, expect, it } from 'vitest'
import { parseTemplate, templateReferences } from './index.ts'

const joined = (paths: string[][]) => paths.map((path) => path.join('/'))
const references = (text: string) => joined(templateReferences(parseTemplate(text)).all)
const needed = (text: string) => joined(templateReferences(parseTemplate(text)).needed)

describe('the references of a template', () => {
  it.each([
    ['a field', '{{ .components.db.outputs.url }}', ['components/db/outputs/url']],
    ['a field of the root', '{{ with .x }}{{ $.a.b }}{{ end }}', ['x', 'a/b']],
    ['a field in a pipe', '{{ .a.b | default .c | quote }}', ['a/b', 'c']],
    ['each once', '{{ .a }}{{ .a }}', ['a']],
    [
      'what is inside `with`',
      '{{ with .components.db }}{{ .outputs.url }}{{ end }}',
      ['components/db', 'components/db/outputs/url'],
    ],
    [
      'what is inside `with` and a variable',
      '{{ with $c := .a }}{{ $c.b }}{{ else }}{{ .d }}{{ end }}',
      ['a', 'a/b', 'd'],
    ],
    ['the elements of a range', '{{ range .l }}{{ .x }}{{ end }}', ['l', 'l/*/x']],
    ['the elements of a map', '{{ range $k, $v := .m }}{{ $k }}{{ $v.x }}{{ end }}', ['m', 'm/*/x']],
    [
      'what a variable holds',
      '{{ $d := .components.db }}{{ $d.outputs.url }}',
      ['components/db', 'components/db/outputs/url'],
    ],
    [
      'what a variable may hold',
      '{{ $d := .a }}{{ if .b }}{{ $d = .c }}{{ end }}{{ $d.x }}',
      ['a', 'b', 'c', 'a/x', 'c/x'],
    ],
    ['literal indexes', '{{ index .components "my-db" "outputs" }}', ['components/my-db/outputs']],
    [
      'what an index has',
      '{{ (index .components "my-db").outputs.url }}',
      ['components/my-db', 'components/my-db/outputs/url'],
    ],
    ['an index by a value', '{{ index .components .name "outputs" }}', ['name', 'components']],
    [
      'a get and a dig',
      '{{ get .a "b" }}{{ dig "c" "d" .e .f }}{{ .f | dig "g" "none" }}',
      ['a/b', 'e', 'f/c/d', 'f', 'f/g'],
    ],
    [
      'what a template is given',
      '{{ define "t" }}{{ .url }}{{ end }}{{ template "t" .a.b }}',
      ['a/b', 'a/b/url'],
    ],
    ['what a block is given', '{{ block "t" .a }}{{ .b }}{{ end }}', ['a', 'a/b']],
    [
      'branches not taken',
      '{{ if false }}{{ .a }}{{ else if .b }}{{ else }}{{ .c }}{{ end }}',
      ['a', 'b', 'c'],
    ],
    ['the whole', '{{ toYaml . }}', ['']],
    ['arguments in parentheses', '{{ printf "%s" (upper .a.b) }}', ['a/b']],
    ['names beyond ASCII', '{{ .größe.名前 }}', ['größe/名前']],
    ['nothing in text and literals', 'a {{ "b" }} {{ 1 }}', []],
    ['nothing of a value made here', '{{ (dict "a" 1).a }}{{ range until 3 }}{{ . }}{{ end }}', []],
  ])('are %s', (_, text, paths) => {
    expect(references(text)).toEqual(paths)
  })

  it.each([
    ['a field, an index and a get', '{{ .a.b }}{{ index .c "d" }}{{ get .e "f" }}', ['a/b', 'c/d', 'e/f']],
    [
      'what a dig is given, not what it looks for',
      '{{ dig "c" "none" .f }}{{ if .f | dig "g" "none" }}{{ end }}',
      ['f'],
    ],
    ['what a dig looks into or gives instead', '{{ dig "c" .d .e.f }}', ['d']],
    ['what is named elsewhere too', '{{ dig "c" "none" .f }}{{ .f.c }}', ['f/c']],
    ['what is in it', '{{ with dig "c" "none" .f }}{{ .g }}{{ end }}', ['f/c/g']],
  ])('that it does not render without are %s', (_, text, paths) => {
    expect(needed(text)).toEqual(paths)
  })

  it('end for templates that call themselves with ever deeper data', () => {
    const text =
      '{{ define "t" }}{{ .v }}{{ template "t" .next }}{{ template "t" .other }}{{ end }}{{ template "t" . }}'
    expect(references(text).length).toBeGreaterThan(10)
  })
})
