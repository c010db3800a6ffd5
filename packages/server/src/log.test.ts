import { describe, expect, it } from 'vitest'
import { createLog } from './log.ts'

describe('the log', () => {
  it('tells what an error says, and nothing that hangs on it', () => {
    const lines: string[] = []
    const log = createLog('info', { write: (line: string) => void lines.push(line) })
    const client = { connectionParameters: { password: 'top-secret' } }
    const broken = Object.assign(new Error('the connection ended', { cause: new Error('reset') }), {
      code: '57P01',
      client,
    })
    log.warn({ err: broken }, 'a database connection broke')
    expect(lines.join('')).not.toMatch(/top-secret|client/)
    expect(JSON.parse(lines[0]!)).toMatchObject({
      msg: 'a database connection broke',
      err: {
        type: 'Error',
        code: '57P01',
        message: 'the connection ended',
        cause: { message: 'reset' },
        stack: expect.stringContaining('log.test'),
      },
    })
  })
})
