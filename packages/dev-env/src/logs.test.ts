import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { statementsOf } from './logs.ts'

const folder = mkdtempSync(join(tmpdir(), 'tenon-logs-'))
afterAll(() => rmSync(folder, { recursive: true }))

const logOf = (...lines: object[]) => {
  const log = join(folder, 'server.log')
  writeFileSync(log, lines.map((line) => `${JSON.stringify(line)}\n`).join(''))
  return log
}

it('the most statements of any server that stopped count; one that was killed said nothing', () => {
  const stopped = (statements: number) => ({ statements, msg: 'the server has stopped' })
  expect(statementsOf(logOf(stopped(150), { msg: 'listening' }, stopped(120)))).toBe(150)
  expect(statementsOf(logOf({ msg: 'listening' }))).toBe(0)
  expect(statementsOf(join(folder, 'absent.log'))).toBe(0)
})

it('a server that stops without saying its count is no server without statements', () => {
  const log = logOf({ msg: 'the server has stopped' })
  expect(() => statementsOf(log)).toThrow('does not say how many statements')
})
