import { expect, it } from 'vitest'
import type { EngineAbout } from './engine.ts'
import { chooseHost, describeHost } from './host.ts'

it('tells of an engine without a fault only what no engine walls off', () => {
  const about: EngineAbout = {
    product: 'docker',
    version: '1',
    apiVersion: '1.41',
    isRootless: false,
    hasSeccomp: true,
    cgroupVersion: '2',
    missingLimits: [],
    remapsUsers: false,
    hasSelinux: false,
  }
  const { warnings } = describeHost(chooseHost(about, { uid: 0, gid: 0 }))
  expect(warnings).toEqual([expect.stringMatching(/container_image and docker_build keep the whole network/)])
})
