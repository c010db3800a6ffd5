import { describe, expect, it } from 'vitest'
import type { KubeObject } from './objects.ts'
import { podTrouble } from './pod-trouble.ts'

const pod = (container: { [key: string]: unknown }, spec: { [key: string]: unknown } = {}) =>
  ({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { namespace: 'shop', name: 'web-1' },
    spec,
    status: { phase: 'Running', containerStatuses: [{ name: 'main', restartCount: 0, ...container }] },
  }) as KubeObject

const ENDED = { exitCode: 3, reason: 'Error' }

describe('a container that ended', () => {
  it('crashes from the first moment on, with the code and the log of the run that ended', () => {
    expect(podTrouble(pod({ ready: false, state: { terminated: ENDED } }), [])).toEqual({
      kind: 'crash of web-1',
      reason: 'the pod shop/web-1 crashes (ended): its container main ended with code 3, 0 restarts',
      patienceMs: Infinity,
      logsOf: { namespace: 'shop', pod: 'web-1', container: 'main', previous: false },
    })
  })

  it('crashes while the kubelet waits before it starts it again', () => {
    const waiting = { reason: 'CrashLoopBackOff' }
    const seen = pod({ restartCount: 1, state: { waiting }, lastState: { terminated: ENDED } })
    expect(podTrouble(seen, [])).toMatchObject({
      reason: expect.stringContaining(
        'crashes (CrashLoopBackOff): its container main ended with code 3',
      ) as unknown,
      logsOf: { previous: true },
    })
  })

  it('does not crash when it ended well, or is not to be started again', () => {
    expect(podTrouble(pod({ state: { terminated: { exitCode: 0 } } }), [])).toBeUndefined()
    const once = pod({ state: { terminated: ENDED } }, { restartPolicy: 'Never' })
    expect(podTrouble(once, [])).toBeUndefined()
  })
})
