import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { PRODUCT_VERSION } from '../packages/protocol/src/version.ts'
import { expect, it } from 'vitest'

const root = dirname(import.meta.dirname)
const read = (file: string) => readFileSync(join(root, file), 'utf8')

it('package, lock file and chart carry the version of the wire', () => {
  const chart = read('charts/agent/Chart.yaml')
  expect(JSON.parse(read('package.json')).version).toBe(PRODUCT_VERSION)
  expect(JSON.parse(read('package-lock.json')).version).toBe(PRODUCT_VERSION)
  expect(/^version: (.*)$/m.exec(chart)?.[1]).toBe(PRODUCT_VERSION)
  expect(/^appVersion: (.*)$/m.exec(chart)?.[1]).toBe(PRODUCT_VERSION)
})
