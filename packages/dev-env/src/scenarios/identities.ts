import { copyFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Scenario } from '../scenario.ts'
import type { Stage } from '../stage.ts'
import { until } from '../until.ts'
import { assert } from './shared.ts'

const SUPERSEDED = 3
const EVICTED = 4
const BAD_CONFIG = 2

/** Who may be an agent of an install, and how often. */
export const identities: Scenario[] = [
  {
    name: 'two agents with one identity: the older one exits, the copy goes on, no ping-pong',
    app: { web: { deploy: { untilReleased: true } } },
    faults: [
      { when: { job: 'deploy:web', is: 'running' }, then: [startCopy] },
      { when: { exits: 'agent', with: SUPERSEDED }, then: [{ release: 'web' }] },
      { when: { run: 'succeeded' }, then: ['start agent'] },
      { when: { exits: 'agent', with: EVICTED }, then: [] },
    ],
    expect: {
      run: 'succeeded',
      jobs: { 'deploy:web': { status: 'succeeded', fence: 1, starts: 1 } },
      audit: { has: ['agent.superseded_earlier', 'agent.quarantined'], hasNot: ['job.lost', 'job.requeued'] },
      exits: { agent: EVICTED },
    },
    async also(stage) {
      const count = (name: string, type: string) =>
        stage.wire(name).capture.filter((frame) => frame.type === type).length
      assert(count('copy', 'welcome') === 1, 'the copy had to connect again')
      assert(count('copy', 'reject') === 0, 'the copy was rejected')
      assert(count('agent', 'reject') === 2, 'the older one was not rejected once in each of its lives')
    },
  },
  {
    name: 'a join token used twice',
    app: { web: {} },
    faults: [
      { when: { run: 'succeeded' }, then: [startWithSameToken] },
      { when: { exits: 'second', with: BAD_CONFIG }, then: [] },
    ],
    expect: {
      run: 'succeeded',
      jobs: { 'deploy:web': { status: 'succeeded' } },
      audit: { has: ['agent.enrol_refused'], hasNot: ['agent.superseded_earlier'] },
      exits: { second: BAD_CONFIG },
    },
  },
  {
    name: 'an expired join token',
    app: { web: {} },
    faults: [
      { when: { run: 'succeeded' }, then: [startWithExpiredToken] },
      { when: { exits: 'late', with: BAD_CONFIG }, then: [] },
    ],
    expect: {
      run: 'succeeded',
      jobs: { 'deploy:web': { status: 'succeeded' } },
      audit: { has: ['agent.enrol_refused'] },
      exits: { late: BAD_CONFIG },
    },
  },
]

async function startCopy(stage: Stage): Promise<void> {
  stage.copyAgent('agent', 'copy')
  await stage.startAgent('copy')
}

async function startWithSameToken(stage: Stage): Promise<void> {
  copyFileSync(
    join(stage.world.folder('agent'), 'join-token'),
    join(stage.world.folder('second'), 'join-token'),
  )
  await stage.startAgent('second')
}

async function startWithExpiredToken(stage: Stage): Promise<void> {
  const { joinToken, expiresAt } = await stage.client.call('agents.joinToken', {
    body: { role: 'build', expiresInSeconds: 1 },
  })
  writeFileSync(join(stage.world.folder('late'), 'join-token'), joinToken)
  await until('the token to expire', () => Date.now() > Date.parse(expiresAt))
  await stage.startAgent('late', { role: 'build' })
}
