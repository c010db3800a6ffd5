import { describe, expect, it } from 'vitest'
import { imageOfParts, imagesInManifests } from './images-in-manifests.ts'
import { EXPRESSION, neutralise } from './neutralise.ts'

const namesIn = (text: string) => imagesInManifests(text, 'f.yaml').map(({ image }) => image)

describe('the images in manifests', () => {
  it.each(['Deployment', 'StatefulSet', 'DaemonSet', 'ReplicaSet', 'Job'])(
    'are those of the pods of a %s',
    (kind) => {
      const spec = `containers: [{ image: a }]\n      initContainers: [{ image: b }]\n      ephemeralContainers: [{ image: c }]`
      expect(namesIn(`kind: ${kind}\nspec:\n  template:\n    spec:\n      ${spec}\n`)).toEqual([
        'a',
        'b',
        'c',
      ])
    },
  )

  it('are found in pods, cron jobs and lists, each with its place', () => {
    const text = `
kind: CronJob
metadata: { name: nightly }
spec: { jobTemplate: { spec: { template: { spec: { containers: [{ name: x, image: 'quay.io/a/b:1' }] } } } } }
---
kind: List
items:
  - kind: Pod
    metadata: { name: one }
    spec: { containers: [{ image: one:1 }] }
`
    expect(imagesInManifests(text, 'f.yaml')).toEqual([
      {
        image: 'quay.io/a/b:1',
        where: 'f.yaml: CronJob nightly, spec.jobTemplate.spec.template.spec.containers[0].image',
      },
      { image: 'one:1', where: 'f.yaml: Pod one, spec.containers[0].image' },
    ])
  })

  it('are found in custom resources where `image` looks like one', () => {
    const text = `kind: Prometheus\nspec:\n  image: quay.io/p/p:v2\n  icon: { image: logo }\n  thanos: { image: { repository: t/t, tag: 1.5 } }\n`
    expect(namesIn(text)).toEqual(['quay.io/p/p:v2', 't/t:1.5'])
  })

  it('are not what data and schemas hold under that name', () => {
    expect(
      namesIn(
        'kind: ConfigMap\ndata: { image: "a/b:1" }\n---\nkind: CustomResourceDefinition\nspec: { image: "a/b:1" }\n',
      ),
    ).toEqual([])
    expect(namesIn('')).toEqual([])
    expect(namesIn('- just\n- a list\n')).toEqual([])
  })

  it('are told with the template that Helm names above each document', () => {
    const text =
      '---\n# Source: web/templates/a.yaml\nkind: Pod\nspec: { containers: [{ image: a }] }\n---\n# Source: web/charts/x/b.yaml\nkind: Pod\nspec: { containers: [{ image: b }] }\n'
    expect(imagesInManifests(text, 'web').map(({ where }) => where)).toEqual([
      'web/templates/a.yaml: Pod, spec.containers[0].image',
      'web/charts/x/b.yaml: Pod, spec.containers[0].image',
    ])
  })

  it('do not follow a bomb of aliases', () => {
    const lines = ['a0: &a0 [x, x, x, x, x, x, x, x, x, x]']
    for (let i = 1; i < 12; i += 1)
      lines.push(
        `a${i}: &a${i} [${Array(10)
          .fill(`*a${i - 1}`)
          .join(', ')}]`,
      )
    expect(() => namesIn(lines.join('\n'))).toThrow(/alias/i)
  })
})

describe('an image written in parts', () => {
  it.each([
    [{ registry: 'quay.io', repository: 'a/b', tag: 'v1' }, 'quay.io/a/b:v1'],
    [{ repository: 'quay.io/a/b', registry: 'quay.io', tag: 'v1' }, 'quay.io/a/b:v1'],
    [{ repository: 'a/b', digest: `sha256:${'a'.repeat(64)}` }, `a/b@sha256:${'a'.repeat(64)}`],
    [{ repository: 'a/b', tag: '' }, 'a/b:9'],
    [{ repository: '', tag: 'v1' }, undefined],
    [{ repository: 'A B', tag: 'v1' }, undefined],
  ])('%j is %s', (parts, image) => {
    expect(imageOfParts(parts, '9')).toBe(image)
  })
})

describe('a text without the templates of the install', () => {
  it('keeps both branches and marks each expression', () => {
    const text =
      'a: {{ .nuon.x }}\n{{- if eq .a "b" }}\nb: "{{ .y }}:v1"\n{{ else }}\nc: 1\n{{ end }}\nd: x{{/* note */}}\n'
    expect(neutralise(text).replaceAll(/\n+/g, '\n')).toBe(
      `a: ${EXPRESSION}\nb: "${EXPRESSION}:v1"\nc: 1\nd: x\n`,
    )
    expect(neutralise('plain: {}\n')).toBe('plain: {}\n')
  })
})
