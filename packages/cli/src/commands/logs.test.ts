import { once } from 'node:events'
import { PassThrough } from 'node:stream'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { startApi, type Api } from '../testing/api-server.ts'
import { createHome, type Home } from '../testing/run-cli.ts'
import { app, build, install, job, testId } from '../testing/values.ts'

const JOB = testId('job')
const OTHER = testId('job', 2)
const LOG = Buffer.from('one\n\u001B[31mtwo\u001B[0m\u001B[2J\nthree')

let api: Api
let home: Home
let offsets: number[]

beforeEach(async () => {
  home = await createHome()
  offsets = []
  api = await startApi({
    'jobs.get': () => job({ logBytes: LOG.length }),
    'jobs.list': ({ query }) => {
      const ofComponent: Record<string, string> = { db: JOB, web: OTHER }
      const id = query['component'] === undefined ? OTHER : ofComponent[query['component'] as string]
      return { items: id === undefined ? [] : [job({ id })], next: null }
    },
    'builds.get': () => build({ jobId: OTHER }),
    'jobs.logs': ({ query, response }) => {
      offsets.push(query['offset'] as number)
      response.end(LOG.subarray(query['offset'] as number))
    },
  })
})
afterEach(() => api.stop())

const logs = (...argv: string[]) => home.run(['logs', ...argv], { env: api.env })
const jobAsked = () => api.callsOf('jobs.logs').at(-1)?.given.params['id']

describe('the log of a job', () => {
  it('goes into a pipe byte for byte', async () => {
    expect(await logs(JOB)).toEqual({ code: 0, stdout: LOG.toString(), stderr: '' })
  })

  it('goes to a terminal with its colours and nothing else that controls it', async () => {
    const ran = await home.run(['logs', JOB], { env: api.env, tty: 80 })
    expect(ran.stdout).toBe('one\n\u001B[31mtwo\u001B[0m\nthree\u001B[0m')
  })

  it('is a line of JSON for each of its lines', async () => {
    const lines = (await logs(JOB, '--json')).stdout.trimEnd().split('\n')
    expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual([
      { offset: 0, text: 'one' },
      { offset: 4, text: '\u001B[31mtwo\u001B[0m\u001B[2J' },
      { offset: LOG.indexOf('three'), text: 'three' },
    ])
  })

  it('is found by install, by component and by build', async () => {
    await logs('acme')
    expect(jobAsked()).toBe(OTHER)
    await logs('acme', 'db')
    expect(jobAsked()).toBe(JOB)
    await logs('acme', 'web')
    expect(jobAsked()).toBe(OTHER)
    await logs(testId('build'))
    expect(jobAsked()).toBe(OTHER)
  })

  it('that is nobody’s says what there is, and an id that is none that it is none', async () => {
    api.handlers['installs.get'] = () => install()
    api.handlers['apps.get'] = () => app()
    const ran = await logs('acme', 'nothing')
    expect(ran.code).toBe(4)
    expect(ran.stderr).toContain('there is no job of component nothing of acme yet\nnext: what is there: web')
    const mistyped = await logs('job_x')
    expect(mistyped.code).toBe(2)
    expect(mistyped.stderr).toContain('"job_x" is no id of a job: expected an id such as job_01…')
    expect(api.callsOf('jobs.logs')).toEqual([])
  })

  it('that has none is explained by its end, or by what it waits for', async () => {
    const at = '2026-11-15T12:00:00.000Z'
    api.handlers['jobs.logs'] = ({ response }) => void response.end()
    api.handlers['jobs.get'] = () =>
      job({ status: 'failed', reason: 'refused', message: 'the manifest has expired' })
    expect(await logs(JOB)).toEqual({
      code: 0,
      stdout: '',
      stderr: `job ${JOB} has printed nothing: it is failed (refused): the manifest has expired\n`,
    })
    const waiting = { code: 'no_agent', message: 'No agent.', since: at, remedy: null }
    api.handlers['jobs.get'] = () => job({ status: 'queued', reason: null, waiting })
    expect((await logs(JOB)).stderr).toBe(
      `job ${JOB} has printed nothing: it is queued\nit waits: No agent.\n`,
    )
  })

  it('is followed without gaps or repeats over a broken connection', async () => {
    let broken = false
    api.handlers['jobs.logs'] = ({ query, response }) => {
      const from = query['offset'] as number
      offsets.push(from)
      if (broken) return void response.end(LOG.subarray(from))
      broken = true
      response.write(LOG.subarray(0, 6), () => setImmediate(() => response.destroy()))
    }
    const ran = await logs(JOB, '-f')
    expect(ran).toMatchObject({ code: 0, stdout: LOG.toString() })
    expect(offsets).toEqual([0, 6])
  })

  it('stops being followed at Ctrl-C', async () => {
    api.handlers['jobs.logs'] = ({ response }) => void response.write('working\n')
    const ran = logs(JOB, '-f')
    await vi.waitUntil(() => api.callsOf('jobs.logs').length > 0 && home.interrupt())
    expect((await ran).code).toBe(130)
  })
})

describe('a reader that goes away', () => {
  it('ends the command without a word', async () => {
    api.handlers['jobs.logs'] = ({ response }) => void response.write('working\n')
    const stdout = new PassThrough()
    const ran = home.run(['logs', JOB, '-f'], { env: api.env, io: { stdout } })
    await once(stdout, 'data')
    stdout.emit('error', Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }))
    expect(await ran).toMatchObject({ code: 0, stderr: '' })
  })
})
