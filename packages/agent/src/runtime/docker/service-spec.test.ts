import { describe, expect, it } from 'vitest'
import type { WantedService } from '../services.ts'
import type { ServiceContainer } from './engine-services.ts'
import {
  arrange,
  buildServiceContainer,
  compareService,
  containerName,
  hashOf,
  isRunningAs,
  shownGeneration,
} from './service-spec.ts'

const NETWORK = 'tenon-key'
const wanted: WantedService = {
  image: `registry:5000/apps/web@sha256:${'a'.repeat(64)}`,
  replicas: 2,
  port: 8000,
  env: { B: 'two', A: 'one' },
}

function container(
  generation: number,
  replica: number,
  isNamed: boolean,
  changes: Partial<ServiceContainer> = {},
  spec = wanted,
): ServiceContainer {
  const made = buildServiceContainer({
    agentKey: 'key',
    component: 'web',
    wanted: spec,
    imageId: 'sha256:1',
    generation: { number: generation, id: `id-${generation}` },
    replica,
    jobId: 'job',
    memoryBytes: 1,
  })
  return {
    name: containerName('key', 'web', generation, replica),
    labels: made.Labels,
    env: ['PATH=/bin', ...made.Env],
    status: 'running',
    isRunning: true,
    wasOomKilled: false,
    exitCode: 0,
    error: '',
    restarts: 0,
    networks: { [NETWORK]: { address: `10.0.${generation}.${replica}`, aliases: isNamed ? ['web'] : [] } },
    ...changes,
  }
}

const whole = (generation: number, isNamed: boolean) => [
  container(generation, 1, isNamed),
  container(generation, 2, isNamed),
]

describe('which generation of a service serves', () => {
  const numbers = (...containers: ServiceContainer[]) => {
    const { current, next, stale } = arrange(containers, NETWORK, 'web')
    return [current?.number ?? null, next?.number ?? null, stale.map(({ number }) => number)]
  }

  it.each([
    ['nothing is there', [], [null, null, []]],
    ['the first comes up', whole(1, false), [null, 1, []]],
    ['one serves', whole(1, true), [1, null, []]],
    ['a second comes up', [...whole(1, true), ...whole(2, false)], [1, 2, []]],
    [
      'the agent died while it gave the name to the second',
      [...whole(1, true), container(2, 1, true), container(2, 2, false)],
      [1, 2, []],
    ],
    ['the agent died before it removed the first', [...whole(1, true), ...whole(2, true)], [2, null, [1]]],
    ['the agent died while it removed the first', [container(1, 2, true), ...whole(2, true)], [2, null, [1]]],
    ['a replica was taken away', [container(1, 2, true)], [1, null, []]],
    [
      'a replica was taken away and a second comes up',
      [container(1, 2, true), ...whole(2, false)],
      [1, 2, []],
    ],
    ['two attempts were cut short', [...whole(1, true), ...whole(2, false), ...whole(3, false)], [1, 3, [2]]],
  ])('when %s', (_when, containers, expected) => {
    expect(numbers(...containers)).toEqual(expected)
    expect(numbers(...containers.toReversed())).toEqual(expected)
  })

  it('leaves out what is not understood', () => {
    const strange = container(1, 1, true)
    expect(numbers({ ...strange, labels: { ...strange.labels, 'tenon.service.facts': '{' } })).toEqual([
      null,
      null,
      [],
    ])
  })
})

describe('two specifications', () => {
  it('are the same whatever the order of their environment', () => {
    expect(hashOf({ ...wanted, env: { A: 'one', B: 'two' } })).toBe(hashOf(wanted))
    for (const other of [
      { port: 1 },
      { replicas: 3 },
      { image: 'x' },
      { command: ['x'] },
      { env: { A: 'one' } },
    ]) {
      expect(hashOf({ ...wanted, ...other })).not.toBe(hashOf(wanted))
    }
  })

  it('are the same only while all of it runs', () => {
    const running = arrange(whole(1, true), NETWORK, 'web').current!
    expect(isRunningAs(running, wanted)).toBe(true)
    const [first] = whole(1, true)
    const stopped = container(1, 2, true, { isRunning: false, status: 'exited' })
    expect(isRunningAs(arrange([first!, stopped], NETWORK, 'web').current!, wanted)).toBe(false)
    expect(isRunningAs(arrange([first!], NETWORK, 'web').current!, wanted)).toBe(false)
  })

  it('differ field by field, and no value of command or environment is told', () => {
    const current = arrange(whole(1, true), NETWORK, 'web').current
    expect(compareService(current, wanted)).toEqual([])
    const other = { ...wanted, port: 9000, command: ['run', 'secret'], env: { A: 'secret', C: 'secret' } }
    const changes = compareService(current, other)
    expect(changes).toEqual([
      { field: 'port', before: '8000', after: '9000' },
      { field: 'command', before: null, after: 'set' },
      { field: 'env.A', before: 'set', after: 'changed' },
      { field: 'env.B', before: 'set', after: null },
      { field: 'env.C', before: null, after: 'set' },
    ])
    const before = whole(1, true).map((_, index) => container(1, index + 1, true, {}, other))
    const back = compareService(arrange(before, NETWORK, 'web').current, wanted)
    expect(JSON.stringify([changes, back])).not.toContain('secret')
  })
})

describe('the container of a service', () => {
  it('has no rights, no folder of the machine, no port on it, and is never taken for a job', () => {
    const parts = { agentKey: 'key', component: 'web', imageId: 'sha256:1', replica: 1, jobId: 'job_1' }
    const generation = { number: 1, id: 'x' }
    const made = buildServiceContainer({ ...parts, wanted, generation, memoryBytes: 64 })
    expect(made.HostConfig).toMatchObject({
      CapDrop: ['ALL'],
      Privileged: false,
      SecurityOpt: ['no-new-privileges'],
      Memory: 64,
      MemorySwap: 64,
      NetworkMode: NETWORK,
    })
    for (const field of ['Binds', 'Mounts', 'PortBindings', 'Devices', 'CapAdd'])
      expect(made.HostConfig).not.toHaveProperty(field)
    expect(Object.keys(made.Labels)).not.toContain('tenon.job')
    expect(made.Labels['tenon.service.facts']).not.toContain('two')
  })

  it('shows how it ended only while it does not run, since engines say 0 of one that runs again', () => {
    const containers = [
      container(1, 1, true, { restarts: 2 }),
      container(1, 2, true, { isRunning: false, status: 'restarting', exitCode: 3, restarts: 2 }),
    ]
    const { replicas } = shownGeneration(arrange(containers, NETWORK, 'web').current!, NETWORK)
    expect(replicas.map(({ number, exitCode, address }) => [number, exitCode, address])).toEqual([
      [1, null, '10.0.1.1'],
      [2, 3, '10.0.1.2'],
    ])
  })
})
