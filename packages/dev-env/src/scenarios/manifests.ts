import { createInstall, type Scenario } from '../scenario.ts'
import type { Stage } from '../stage.ts'
import { until } from '../until.ts'
import { manifestOf, type WireFrame } from '../wire.ts'
import { assert } from './shared.ts'

const refused = { status: 'failed', reason: 'refused', starts: 0 } as const
const OTHER = 'other'
/** What an agent is silent about is given to it again, though not before the scenario is over. */
const unhurried = { TENON_HEARTBEAT_SECONDS: '60', TENON_LEASE_SECONDS: '180' }

/** Manifests that an agent must not run. */
export const manifests: Scenario[] = [
  {
    name: 'a manifest with one byte changed is refused',
    app: { web: {} },
    faults: [
      { when: { at: 'toAgent', frame: 'job.assign', job: 'deploy:web', change: changeOneByte }, then: [] },
    ],
    expect: {
      run: 'failed',
      jobs: { 'deploy:web': { ...refused, message: /signature/ } },
      audit: { has: ['job.failed'] },
    },
  },
  {
    name: 'a changed copy of the manifest of a job that runs is refused, and the job goes on',
    app: { web: { deploy: { untilReleased: true } } },
    faults: [
      { when: { at: 'toAgent', frame: 'job.assign', job: 'deploy:web' }, then: [{ keep: 'assign' }] },
      { when: { job: 'deploy:web', is: 'running' }, then: [injectChanged] },
      { when: { at: 'toServer', frame: 'job.refused' }, then: [] },
      { when: 'then', then: [{ release: 'web' }] },
    ],
    expect: {
      run: 'succeeded',
      jobs: { 'deploy:web': { status: 'succeeded', fence: 1, starts: 1 } },
      audit: { has: ['job.refused'], hasNot: ['job.failed'] },
    },
  },
  {
    name: 'manifests of two installs exchanged on the wire are refused by both',
    app: { web: {} },
    server: unhurried,
    faults: [
      {
        when: { at: 'toAgent', frame: 'job.assign', job: 'sync:web', drop: true },
        then: [{ keep: 'assign' }],
      },
      { when: 'then', then: [exchangeManifests, reconnectBoth] },
    ],
    expect: {
      run: 'succeeded',
      jobs: { 'sync:web': { status: 'succeeded', fence: 2, starts: 1 } },
      audit: { has: ['job.refused', 'job.requeued'], hasNot: ['job.failed', 'job.lost'] },
    },
    async also(stage) {
      await stage.untilRun('succeeded', OTHER)
    },
  },
  {
    name: 'an expired manifest is refused',
    app: { web: {} },
    server: { ...unhurried, TENON_MANIFEST_TTL_SECONDS: '4' },
    agent: { env: { TENON_CLOCK_SKEW_SECONDS: '0' } },
    faults: [
      {
        when: { at: 'toAgent', frame: 'job.assign', job: 'deploy:web', drop: true },
        then: [{ keep: 'assign' }],
      },
      { when: 'then', then: [deliverExpired] },
    ],
    expect: {
      run: 'failed',
      jobs: { 'deploy:web': { ...refused, message: /expired/ } },
      audit: { has: ['job.failed'] },
    },
  },
  {
    name: 'a manifest seen before is refused',
    app: { web: {} },
    faults: [
      { when: { at: 'toAgent', frame: 'job.assign', job: 'deploy:web' }, then: [{ keep: 'assign' }] },
      { when: { run: 'succeeded' }, then: [replayAssign] },
      { when: { at: 'toServer', frame: 'job.refused' }, then: [] },
    ],
    expect: {
      run: 'succeeded',
      jobs: { 'deploy:web': { status: 'succeeded', starts: 1 } },
      audit: { has: ['job.refused'], hasNot: ['job.failed'] },
    },
  },
]

/** One hexadecimal digit of an artifact's digest: the frame stays well-formed and names its job. */
function changeOneByte(frame: WireFrame): string {
  const manifest = frame.content['manifest'] as { text: string }
  const at = manifest.text.indexOf('sha256:') + 'sha256:'.length
  const digit = manifest.text[at] === '0' ? '1' : '0'
  const text = manifest.text.slice(0, at) + digit + manifest.text.slice(at + 1)
  return JSON.stringify({ ...frame.content, manifest: { ...manifest, text } })
}

function injectChanged(stage: Stage): void {
  stage.wire().inject('toAgent', changeOneByte(stage.kept('assign')))
}

/** The agent lets go of a job only when all of it is settled; before that it is not seen, but held. */
async function replayAssign(stage: Stage): Promise<void> {
  await until('the agent to forget the job', () => stage.jobsOf('agent').length === 0)
  stage.wire().inject('toAgent', stage.kept('assign').data.toString())
}

async function deliverExpired(stage: Stage): Promise<void> {
  const frame = stage.kept('assign')
  const { expiresAt } = manifestOf(frame)
  await until('the manifest to expire', () => Date.now() > Date.parse(expiresAt))
  stage.wire().inject('toAgent', frame.data.toString())
}

async function exchangeManifests(stage: Stage): Promise<void> {
  const wire = await stage.openWire(OTHER)
  const hold = wire.hold('toAgent', 'job.assign')
  await createInstall(stage, { web: {} }, OTHER)
  await stage.startAgent(OTHER, { install: OTHER })
  const theirs = await hold
  stage.wire().inject('toAgent', theirs.frame.data.toString())
  theirs.deliver(stage.kept('assign').data.toString())
  for (const each of [stage.wire(), wire]) {
    const refusal = await until('a refusal', () => each.capture.find((frame) => frame.type === 'job.refused'))
    assert(refusal.content['code'] === 'wrong_install', `refused as ${String(refusal.content['code'])}`)
  }
}

async function reconnectBoth(stage: Stage): Promise<void> {
  for (const name of ['agent', OTHER]) {
    stage.wire(name).cut()
    stage.wire(name).mend()
  }
}
