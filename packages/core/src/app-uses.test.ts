import { describe, expect, it } from 'vitest'
import { referencesOf, usesOf, withTemplateDependencies } from './app-uses.ts'
import type { Component } from './app.ts'
import { parseClosure } from './artifact.ts'

const component = (name: string, config: Component['config'], rest: Partial<Component> = {}): Component => ({
  name,
  type: 'script',
  dependencies: [],
  config,
  ...rest,
})
const app = (...components: Component[]) => ({ name: 'a', displayName: '', description: '', components })

describe('what templates use', () => {
  it('finds inputs, secrets and components at any depth, under both roots', () => {
    const uses = usesOf({
      vars: { a: '{{ .nuon.inputs.inputs.region }}', b: ['{{ .tenon.inputs.size }}'] },
      env: { c: '{{ .nuon.secrets.api_key }} {{ index .tenon.components "data-base" "outputs" "url" }}' },
      plain: 'no {braces}',
    })
    expect(uses).toEqual({ inputs: ['region', 'size'], secrets: ['api_key'], components: ['data-base'] })
  })

  it('says that it cannot tell when a template takes all of a part', () => {
    expect(usesOf('{{ range .nuon.components }}{{ . }}{{ end }}').components).toContain('*')
  })

  it('tells apart what a template can do without', () => {
    expect(referencesOf('{{ .nuon.id }}{{ dig "x" "none" .nuon.inputs }}')).toEqual({
      all: [
        ['nuon', 'id'],
        ['nuon', 'inputs', 'x'],
      ],
      needed: [['nuon', 'id']],
    })
  })

  it('says where a text is no template', () => {
    expect(() => usesOf({ a: 'x\n {{ .b' })).toThrow(
      expect.objectContaining({ code: 'bad_template', line: 2, next: 'correct the template' }),
    )
  })

  it('makes a component depend on those whose outputs it reads, by name or by alias, once and never on itself', () => {
    const { components } = withTemplateDependencies(
      app(
        component('data-base', {}),
        component('cache', {}, { varName: 'kv' }),
        component(
          'web',
          {
            a: '{{ .nuon.components.data_base.outputs.url }}{{ .nuon.components.kv.outputs.x }}',
            b: '{{ .nuon.components.web.outputs.y }}',
          },
          { dependencies: ['cache'] },
        ),
      ),
    )
    expect(components.map((c) => c.dependencies)).toEqual([[], [], ['cache', 'data-base']])
  })
})

describe('the closure of an artifact', () => {
  const digest = `sha256:${'a'.repeat(64)}`

  it('is empty without the annotation', () => expect(parseClosure(undefined)).toEqual([]))

  it('keeps what it knows of each image', () => {
    expect(parseClosure(JSON.stringify([{ image: 'nginx:1', digest, more: 1 }]))).toEqual([
      { image: 'nginx:1', digest },
    ])
  })

  it.each(['{', '{}', '[null]', '[{"image":"a"}]', '[{"image":"a","digest":"sha256:1"}]'])(
    'is refused as %s',
    (text) => expect(parseClosure(text)).toBeUndefined(),
  )
})
