import { expect, it } from 'vitest'
import type { Component } from './app.ts'
import { dependentsOf } from './dependents.ts'

const component = (name: string, ...dependencies: string[]): Component => ({
  name,
  type: 'script',
  dependencies,
  config: {},
})
const components = [
  component('page', 'web'),
  component('db'),
  component('web', 'db', 'cache'),
  component('cache'),
  component('lone'),
]

it('names everything that stands on a component, also through others', () => {
  expect(dependentsOf(components, new Set(['db']))).toEqual(['page', 'web'])
  expect(dependentsOf(components, new Set(['web']))).toEqual(['page'])
  expect(dependentsOf(components, new Set(['page', 'lone']))).toEqual([])
})

it('leaves out what is named itself', () => {
  expect(dependentsOf(components, new Set(['cache', 'web']))).toEqual(['page'])
})
