import { describe, expect, it } from 'vitest'
import { declaredNetwork, isEgressHost, isSpecialEgressHost, requiredByNetwork } from './egress-names.ts'

describe('what an app declares that it calls', () => {
  it.each([
    'api.example.com',
    'localhost',
    'a',
    '*.example.com',
    'my_host',
    '10.0.0.1',
    'fd00::1',
    '::ffff:10.0.0.1',
    'x--y.Example.COM',
  ])('is %s', (host) => expect(isEgressHost(host)).toBe(true))

  it.each([
    '',
    '*',
    '*.com',
    'a.*.com',
    '*example.com',
    'https://a.example.com',
    'a.example.com:443',
    'a..com',
    'a.example.com.',
    '-a.com',
    'a b',
    '{{.nuon.x}}',
    '127.1',
    '1.2.3.4.5',
    '256.1.1.1',
    '01.2.3.4',
    '0x7f.1',
    '2130706433',
    '[::1]',
    'g::1',
    `${'a'.repeat(64)}.com`,
    `${'a.'.repeat(127)}com`,
  ])('is not %j', (host) => expect(isEgressHost(host)).toBe(false))

  it.each([
    'localhost',
    'db.localhost',
    '127.0.0.1',
    '127.9.9.9',
    '0.0.0.0',
    '169.254.169.254',
    '::1',
    '0:0::1',
    '::ffff:127.0.0.1',
    '64:ff9b::a9fe:a9fe',
    'fe80::1',
    'fd00:ec2:0::254',
    '100.100.100.200',
    'Metadata.Google.Internal',
    '224.0.0.1',
  ])('is of the machine itself: %s', (host) =>
    expect([isEgressHost(host), isSpecialEgressHost(host)]).toEqual([true, true]),
  )

  it.each([
    'api.example.com',
    '10.0.0.1',
    '192.168.1.1',
    'fd00::1',
    '2001:db8::1',
    '::ffff:10.0.0.1',
    '*.example.com',
  ])('is of the network: %s', (host) => expect(isSpecialEgressHost(host)).toBe(false))

  it('narrows the jobs to those names, and asks for an agent that keeps to them', () => {
    const network = declaredNetwork([
      { host: 'API.example.com', port: 443 },
      { host: 'fd00::1', port: 5432 },
      { host: 'api.example.com', port: 443 },
    ])
    expect(network).toEqual({ mode: 'egress', names: ['api.example.com:443', '[fd00::1]:5432'] })
    expect(requiredByNetwork(network!)).toEqual([{ feature: 'job-networks', since: '0.3' }])
  })

  it('changes nothing where nothing is declared, nor for a sync', () => {
    expect(declaredNetwork(undefined)).toBeUndefined()
    expect(declaredNetwork([])).toBeUndefined()
    expect(requiredByNetwork({ mode: 'egress', names: [] })).toEqual([])
    expect(requiredByNetwork({ mode: 'egress', names: ['server'] })).toEqual([])
    expect(requiredByNetwork({ mode: 'open', names: [] })).toEqual([])
  })
})
