import { textFunction } from '@tenon/go-template'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { App } from './app.ts'
import { installState, type InstallFacts } from './install-state.ts'
import type { Json } from './json.ts'
import { preview } from './preview.ts'
import { ConfigRenderError, renderConfig } from './render-config.ts'

const facts: InstallFacts = {
  id: 'ins_1',
  name: 'acme',
  app: { id: 'app_1', name: 'shop', version: 3 },
  inputs: { region: 'eu', size: 2, nothing: null },
  secrets: { api_key: 's3cret' },
  sandbox: { type: 'local', outputs: { vpc: { id: 'vpc-1' } } },
  components: [
    { name: 'data-base', status: 'deployed', buildId: 'bld_1', outputs: { url: 'pg://x', ports: [1, 2] } },
    { name: 'cache', varName: 'kv', status: 'pending' },
  ],
}
const state = installState(facts)

function errorOf(run: () => unknown): ConfigRenderError {
  try {
    run()
  } catch (error) {
    if (error instanceof ConfigRenderError) return error
    throw error
  }
  throw new Error('nothing was thrown')
}

describe('rendering a configuration', () => {
  it('renders templates at any depth under both roots, and keeps the type of everything else', () => {
    const value = {
      vars: {
        region: '{{ .nuon.inputs.inputs.region }}',
        size: '{{ .tenon.inputs.inputs.size }}',
        n: 3,
        on: true,
      },
      list: ['{{ .nuon.secrets.api_key }}', null, 'plain {x}'],
      '{{ key }}': '{{ .nuon.id }}/{{ .nuon.install.id }}/{{ .nuon.app.name }}',
    }
    expect(renderConfig(value, state)).toEqual({
      vars: { region: 'eu', size: '2', n: 3, on: true },
      list: ['s3cret', null, 'plain {x}'],
      '{{ key }}': 'ins_1/ins_1/shop',
    })
  })

  it('finds a component by its name, with underscores, and by its var name', () => {
    const text =
      '{{ .nuon.components.data_base.outputs.url }} {{ index .nuon.components "data-base" "status" }} ' +
      '{{ .nuon.components.kv.populated }} {{ .nuon.components.data_base.build_id }} {{ .nuon.sandbox.outputs.vpc.id }}'
    expect(renderConfig(text, state)).toBe('pg://x deployed false bld_1 vpc-1')
  })

  it('lets a template ask whether a value is there', () => {
    const text =
      '{{ .nuon.inputs.inputs.none | default "d" }}{{ if .nuon.components.cache.outputs.url }}y{{ else }}n{{ end }}' +
      '{{ dig "cache" "outputs" "url" "g" .nuon.components }}{{ coalesce .nuon.secrets.none "c" }}' +
      '{{ with .nuon.components.none }}{{ .x }}{{ end }}{{ toJson .nuon.inputs.inputs.nothing }}'
    expect(renderConfig(text, state)).toBe('dngcnull')
  })

  it.each([
    [
      '{{ .nuon.components.cache.outputs.url }}',
      'components.cache.outputs.url',
      'deploy cache first, or give a value for when it is not there: | default "…"',
    ],
    [
      '{{ .nuon.components.nope.outputs.url }}',
      'components.nope.outputs.url',
      'deploy nope first, or give a value for when it is not there: | default "…"',
    ],
    [
      '{{ .nuon.components.data_base.outputs.uri }}',
      'components.data_base.outputs.uri',
      'data_base gives no output uri; it gives url, ports',
    ],
    ['{{ .tenon.inputs.inputs.zone | quote }}', 'inputs.inputs.zone', 'set the input zone of the install'],
    ['{{ .nuon.install.inputs.zone | upper }}', 'install.inputs.zone', 'set the input zone of the install'],
    [
      '{{ .nuon.secrets.token | b64enc }}',
      'secrets.token',
      'set the secret: tenon installs secrets set INSTALL token',
    ],
    [
      '{{ printf "%s" .nuon.sandbox.outputs.dns }}',
      'sandbox.outputs.dns',
      'provision the sandbox, and see which outputs it gives',
    ],
    [
      '{{ .nuon.actions.workflows.seed.outputs.id }}',
      'actions.workflows.seed.outputs.id',
      'run the action seed first',
    ],
    [
      '{{ .nuon.inputs.inputs.none | default "d" }}\n{{ .nuon.domain.name }}',
      'domain.name',
      'the install’s state has no such value; correct the name, or use | default "…"',
    ],
    [
      '{{ with .nuon.components.data_base }}{{ .outputs.x }}{{ end }}',
      'components.data_base.outputs.x',
      'data_base gives no output x; it gives url, ports',
    ],
    ['{{ .nuon.inputs.inputs.nothing }}', 'inputs.inputs.nothing', 'set the input nothing of the install'],
    [
      '{{ toPrettyJson .nuon.components.nope }}',
      'components.nope',
      'deploy nope first, or give a value for when it is not there: | default "…"',
    ],
  ])('refuses %s by name and says what to do', (text, reference, next) => {
    const error = errorOf(() => renderConfig({ vars: [text] }, state))
    expect(error).toMatchObject({ code: 'missing_value', reference, next, path: ['vars', 0] })
    expect(error.message).toBe(`vars.0: .${reference} has no value`)
  })

  it('says where a template is wrong, without any value', () => {
    const error = errorOf(() => renderConfig({ a: { b: 'x\n  {{ brew 1 }}' } }, state))
    expect(error).toMatchObject({ code: 'bad_template', path: ['a', 'b'], line: 2, column: 6 })
    expect(error.message).toBe('template: a.b:2: function "brew" not defined')
  })

  it('knows functions that are given to it', () => {
    const functions = { image: textFunction(1, (name) => `registry/${name}`) }
    expect(renderConfig('{{ image "web" }}', state, { functions })).toBe('registry/web')
  })

  it('is bounded as a whole: steps, depth and size', () => {
    const loop = '{{ range until 1000 }}{{ end }}'
    const many = Array.from({ length: 2000 }, () => loop)
    expect(errorOf(() => renderConfig(many, state)).code).toBe('too_large')
    let deep: Json = 'x'
    for (let i = 0; i < 600; i++) deep = [deep]
    expect(errorOf(() => renderConfig(deep, state)).code).toBe('too_large')
    const wide = Array.from({ length: 10 }, () => '{{ repeat 1000 "x" }}')
    expect(errorOf(() => renderConfig(wide, state, { limits: { outputBytes: 5000 } })).code).toBe('too_large')
  })

  it('is not taken for too large by the words of its own failure', () => {
    expect(errorOf(() => renderConfig('{{ fail "quota: exceeded " }}', state)).code).toBe('bad_template')
  })

  it('misses a value in a state that is nothing', () => {
    const error = errorOf(() => renderConfig('{{ .nuon.inputs }}', null))
    expect(error.code).toBe('missing_value')
  })

  it('never prints <no value> and throws nothing of another kind, whatever it is given', () => {
    const piece = fc.constantFrom(
      '{{ .nuon.',
      '{{ ',
      ' }}',
      'inputs',
      '.components',
      '.x',
      ' | quote',
      ' | default "a"',
      'if ',
      '{{ end }}',
      'range ',
      '$',
      '"',
    )
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), fc.jsonValue(), (pieces, data) => {
        try {
          expect(renderConfig(pieces.join(''), data as Json)).not.toContain('<no value>')
        } catch (error) {
          if (!(error instanceof ConfigRenderError)) throw error
        }
      }),
      { numRuns: 500 },
    )
  })
})

describe('a preview', () => {
  const input = {
    displayName: '',
    description: '',
    group: '',
    required: false,
    internal: false,
    userConfigurable: true,
  }
  const app: App = {
    name: 'shop',
    displayName: '',
    description: '',
    components: [],
    inputs: [
      { ...input, name: 'size', type: 'number', sensitive: false, default: 1 },
      { ...input, name: 'password', type: 'string', sensitive: true },
    ],
    secrets: [
      { name: 'api_key', displayName: '', description: '', required: true, autoGenerate: false, format: '' },
    ],
  }
  const known = {
    ...facts,
    inputs: { region: 'eu', password: 'must-not-show' },
    components: [
      {
        name: 'db',
        status: 'deployed',
        outputs: { url: { sensitive: false, value: 'pg://x' }, key: { sensitive: true } },
      },
      { name: 'cache', status: 'pending' },
    ],
  }

  it('shows known values, and words for what is secret or not there yet', () => {
    const value = {
      a: '{{ .nuon.inputs.inputs.region }} {{ .nuon.inputs.inputs.size }} {{ .nuon.inputs.inputs.password }}',
      b: '{{ .nuon.secrets.api_key }} {{ .nuon.components.db.outputs.url }} {{ .nuon.components.db.outputs.key }}',
      c: '{{ .nuon.components.cache.outputs.url }}-{{ .nuon.components.cache.outputs.port }}',
      d: '{{ .nuon.components.cache.outputs.url | default "none" }}',
      n: 4,
    }
    expect(preview(value, app, known)).toEqual({
      value: {
        a: 'eu 1 <secret password>',
        b: '<secret api_key> pg://x <secret components.db.outputs.key>',
        c: '<not yet: components.cache.outputs.url>-<not yet: components.cache.outputs.port>',
        d: 'none',
        n: 4,
      },
      problems: [],
    })
  })

  it('keeps a template that it cannot show as it is, and says why', () => {
    const { value, problems } = preview(
      { a: '{{ fromJson .nuon.secrets.api_key | mustToJson }}{{ fail "no" }}' },
      app,
      known,
    )
    expect(value).toEqual({ a: '{{ fromJson .nuon.secrets.api_key | mustToJson }}{{ fail "no" }}' })
    expect(problems).toMatchObject([{ path: 'a', next: 'correct the template' }])
  })
})
