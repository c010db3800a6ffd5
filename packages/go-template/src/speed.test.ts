import { describe, expect, it } from 'vitest'
import { parseTemplate, renderTemplate } from './index.ts'

const EXPRESSIONS = 100
const ROUNDS = 200

/** Per second of processor time, so that a busy machine does not fail the test. */
function perSecond(work: () => void): number {
  work()
  const start = process.cpuUsage()
  for (let round = 0; round < ROUNDS; round++) work()
  const { user, system } = process.cpuUsage(start)
  return (EXPRESSIONS * ROUNDS * 1e6) / Math.max(user + system, 1)
}

describe('the speed of rendering', () => {
  it('is 50,000 simple expressions a second and more', () => {
    const data = { a: { b: { c: 'value' } }, list: [1, 2, 3], n: 7 }
    const template = parseTemplate('x={{ .a.b.c }}\n'.repeat(EXPRESSIONS))
    const rendered = perSecond(() => renderTemplate(template, data))
    let joined = ''
    const concatenated = perSecond(() => {
      joined = ''
      for (let i = 0; i < EXPRESSIONS; i++) joined += `x=${data.a.b.c}\n`
    })
    expect(renderTemplate(template, data)).toBe(joined)
    const ratio = concatenated / rendered
    console.log(
      `templates: ${Math.round(rendered)} expressions/s; concatenation ${Math.round(concatenated)}/s, ${ratio.toFixed(0)} times that`,
    )
    expect(rendered).toBeGreaterThan(50_000)
  })
})
