import { describe, expect, it } from 'vitest'
import type { AppInput } from './app.ts'
import { checkInputs, effectiveInputs, usersOfInputs } from './inputs.ts'

const input = (name: string, type: AppInput['type'], rest: Partial<AppInput> = {}): AppInput => ({
  name,
  type,
  displayName: '',
  description: '',
  group: '',
  required: false,
  sensitive: false,
  internal: false,
  userConfigurable: false,
  ...rest,
})

describe('inputs', () => {
  const inputs = [
    input('size', 'number', { required: true }),
    input('on', 'bool', { default: true }),
    input('zones', 'list'),
    input('more', 'json'),
    input('region', 'string', { required: true, default: 'here' }),
    input('key', 'string', { sensitive: true, required: true }),
  ]

  it('are taken as their type wants them', () => {
    const given = { size: '3', on: 'false', zones: '["a"]', more: '{"a":1}' }
    expect(checkInputs({ inputs }, given)).toEqual({
      values: { size: 3, on: false, zones: ['a'], more: { a: 1 } },
      problems: [],
    })
  })

  it('are refused one by one, all at once', () => {
    const given = { on: 'yes', zones: 'a', more: '{', region: 1, key: 'k', other: 1 }
    expect(checkInputs({ inputs }, given).problems).toEqual([
      { input: 'on', message: 'it must be true or false' },
      { input: 'zones', message: 'it must be a list' },
      { input: 'more', message: 'it must be JSON' },
      { input: 'region', message: 'it must be text' },
      { input: 'key', message: 'it is sensitive: seal it to the install instead' },
      { input: 'other', message: 'the app has no such input' },
      { input: 'size', message: 'it is required', isMissing: true },
    ])
  })

  it('are none where the app declares none', () => {
    const problems = [{ input: 'any', message: 'the app has no such input' }]
    expect(checkInputs({}, { any: [1] })).toEqual({ values: {}, problems })
  })

  it('have their defaults until something is given', () => {
    expect(effectiveInputs({ inputs }, { region: 'there' })).toEqual({ on: true, region: 'there' })
  })

  it('name exactly the components that read them', () => {
    const component = (name: string, text: string) => ({
      name,
      type: 'x',
      dependencies: [],
      config: { text },
    })
    const app = {
      name: 'a',
      displayName: '',
      description: '',
      components: [
        component('one', '{{ .nuon.inputs.inputs.size }}'),
        component('two', '{{ .nuon.inputs.inputs.region }}'),
        component('all', '{{ toJson .tenon.inputs }}'),
      ],
    }
    expect(usersOfInputs(app, new Set(['size']))).toEqual(['one', 'all'])
  })
})
