import { describe, expect, it } from 'vitest'
import { podSchema } from './kube-api.ts'
import type { Pod } from './kube-api.ts'
import { endOfMissingPod, endOfPod, isCleared, isSilent, startFailure } from './pod-state.ts'

const patience = { seconds: 5, scheduleSeconds: 15, startSeconds: 900 }

describe('how the job of a pod ended', () => {
  it.each([
    [0, 'ready\nended none 0\n', undefined, 'completed'],
    [3, 'ready\nended none 0\n', undefined, 'exit'],
    [137, 'ready\nended none 1\n', undefined, 'oom'],
    [137, 'ready\nended none 0\n', undefined, 'signal'],
    [143, 'ready\nended stopped 0\n', 'canceled', 'canceled'],
    [143, 'ready\nended stopped 0\n', 'timeout', 'timeout'],
    [137, 'ready\nended timeout 0\n', undefined, 'timeout'],
    [127, 'refused The program x is not there.\n', undefined, 'start'],
    [137, '', undefined, 'signal'],
  ] as const)('code %i with %j and the stop %s is %s', (exitCode, message, stop, reason) => {
    expect(endOfPod(podWith({ terminated: { exitCode, message } }), stop)).toMatchObject({ reason })
  })

  it('is not known while it runs or comes up', () => {
    expect(endOfPod(podWith({ running: {} }), undefined)).toBeUndefined()
    expect(endOfPod(podWith({ waiting: { reason: 'ContainerCreating' } }), undefined)).toBeUndefined()
  })

  it('is memory when the kubelet says so and the wrapper could not', () => {
    const pod = podWith({ terminated: { exitCode: 137, reason: 'OOMKilled' } })
    expect(endOfPod(pod, undefined)).toMatchObject({ reason: 'oom' })
  })

  it.each([
    [
      { phase: 'Failed', reason: 'Evicted', message: 'The node was low on memory' },
      'evicted',
      /low on memory/,
    ],
    [{ phase: 'Failed', reason: 'NodeLost' }, 'node-lost', /node-1 does not answer/],
    [{ conditions: [disruption('DeletionByTaintManager')] }, 'node-lost', /does not answer/],
    [{ conditions: [disruption('PreemptionByScheduler')] }, 'evicted', /evicted the job/],
    [{ phase: 'Failed', reason: 'Strange' }, 'gone', /Strange/],
  ] as const)('%j is %s', (status, reason, words) => {
    const pod = podSchema.parse({ metadata: meta(), spec: { nodeName: 'node-1' }, status })
    expect(endOfPod(pod, undefined)).toMatchObject({ reason, message: expect.stringMatching(words) })
  })

  it('tells a pod that somebody deleted from a job that was killed', () => {
    const terminated = { exitCode: 143, message: 'ready\nended stopped 0\n' }
    const pod = podWith({ terminated }, { deletionTimestamp: '2026-01-01T00:00:00Z' })
    expect(endOfPod(pod, undefined)).toMatchObject({ reason: 'evicted' })
    expect(endOfPod(podWith({ terminated }), undefined)).toMatchObject({ reason: 'signal' })
    expect(endOfMissingPod(pod, false, undefined)).toMatchObject({ reason: 'evicted' })
    expect(endOfMissingPod(undefined, true, undefined)).toMatchObject({ reason: 'evicted' })
    expect(endOfMissingPod(undefined, false, undefined)).toMatchObject({ reason: 'gone' })
    expect(endOfMissingPod(undefined, false, 'canceled')).toMatchObject({ reason: 'canceled' })
  })

  it('knows a pod that is only being cleared away, and one whose log nobody can read', () => {
    const ended = podWith({ terminated: { exitCode: 0 } }, { deletionTimestamp: '2026-01-01T00:00:00Z' })
    expect(isCleared(ended)).toBe(true)
    expect(isCleared(podWith({ running: {} }, { deletionTimestamp: '2026-01-01T00:00:00Z' }))).toBe(false)
    expect(isCleared(podWith({ terminated: { exitCode: 0 } }))).toBe(false)
    expect(isSilent(podWith({ running: {} }))).toBe(false)
    expect(isSilent(podSchema.parse({ metadata: meta(), status: { phase: 'Failed' } }))).toBe(true)
  })
})

describe('why a job does not come up', () => {
  it.each(['ErrImagePull', 'ImagePullBackOff', 'InvalidImageName'])('is the image at %s', (reason) => {
    const failure = startFailure(podWith({ waiting: { reason, message: 'no such host' } }), [], patience)
    expect(failure).toMatchObject({ reason: 'image', message: expect.stringContaining('no such host') })
  })

  it('is told by the scheduler, once it had its time', () => {
    const conditions = [
      { type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message: '0/1 nodes' },
    ]
    const pod = podSchema.parse({ metadata: meta(), status: { phase: 'Pending', conditions } })
    expect(startFailure(pod, [], patience)).toBeUndefined()
    expect(startFailure(pod, [], { ...patience, seconds: 16 })).toMatchObject({
      reason: 'start',
      message: 'No node takes the job: 0/1 nodes',
    })
  })

  it('is told by events, but not by one that healed', () => {
    const quota = { reason: 'FailedCreate', message: 'exceeded quota' }
    expect(startFailure(undefined, [quota], patience)).toMatchObject({
      message: 'FailedCreate: exceeded quota',
    })
    const mount = { reason: 'FailedMount', message: 'secret not found', count: 5 }
    const late = { ...patience, seconds: 30 }
    const waiting = podWith({ waiting: { reason: 'ContainerCreating' } })
    expect(startFailure(waiting, [mount], late)).toMatchObject({ reason: 'start' })
    expect(startFailure(waiting, [{ ...mount, count: 1 }], late)).toBeUndefined()
    expect(startFailure(podWith({ running: {} }), [mount], late)).toBeUndefined()
  })

  it('is told with the last that was heard when all patience is over', () => {
    const pulling = { reason: 'Pulling', message: 'Pulling image "x"' }
    const failure = startFailure(undefined, [pulling], { ...patience, seconds: 901 })
    expect(failure?.message).toBe('The job did not come up within 900 seconds: Pulling: Pulling image "x"')
  })
})

function podWith(state: object, metadata: object = {}): Pod {
  return podSchema.parse({
    metadata: { ...meta(), ...metadata },
    spec: { nodeName: 'node-1' },
    status: { phase: 'Running', containerStatuses: [{ name: 'job', state }] },
  })
}

function meta() {
  return { name: 'p', uid: 'u' }
}

function disruption(reason: string) {
  return { type: 'DisruptionTarget', status: 'True', reason, message: 'because' }
}
