import { randomBytes } from 'node:crypto'
import { makeId } from '@tenon/core'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { formatJoinToken, parseJoinToken } from './enrol.ts'

const bytes = (length: number) => fc.uint8Array({ minLength: length, maxLength: length })
const anyToken = fc.tuple(bytes(10), bytes(32), bytes(32)).map(([id, secret, fingerprint]) => ({
  id: makeId('joinToken', 1_800_000_000_000, id),
  secret: Buffer.from(secret).toString('base64url'),
  fingerprint: Buffer.from(fingerprint).toString('hex'),
}))

describe('a join token', () => {
  it('reads back as it was written, with the space around it that copying leaves', () => {
    fc.assert(
      fc.property(anyToken, (token) => {
        expect(parseJoinToken(formatJoinToken(token))).toEqual(token)
        expect(parseJoinToken(` ${formatJoinToken(token)}\n`)).toEqual(token)
      }),
    )
  })

  it('is none when anything is missing, too much or of another form', () => {
    const good = formatJoinToken({
      id: makeId('joinToken', 0, randomBytes(10)),
      secret: randomBytes(32).toString('base64url'),
      fingerprint: randomBytes(32).toString('hex'),
    })
    for (let cut = 0; cut < good.length; cut++) expect(parseJoinToken(good.slice(0, cut))).toBeUndefined()
    const parts = good.split('.')
    const bad = [`${good}0`, `x${good}`, good.replace('jtk_', 'job_'), good.toUpperCase(), `${good}.x`]
    for (const token of [...bad, parts.toReversed().join('.'), parts.join('\n')]) {
      expect(parseJoinToken(token)).toBeUndefined()
    }
    fc.assert(fc.property(fc.string(), (text) => parseJoinToken(text) === undefined))
  })
})
