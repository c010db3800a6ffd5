import { describe, expect, it } from 'vitest'
import { isSpecialAddress } from './addresses.ts'

describe('an address', () => {
  it.each([
    '127.0.0.1',
    '127.9.9.9',
    '0.0.0.0',
    '169.254.169.254',
    '100.100.100.200',
    '168.63.129.16',
    '224.0.0.1',
    '255.255.255.255',
    '::',
    '::1',
    'fe80::1',
    'fe80::1%eth0',
    'fd00:ec2::254',
    '::ffff:127.0.0.1',
    '::ffff:a9fe:a9fe',
    '64:ff9b::169.254.169.254',
    'no address',
  ])('%s is of this machine or of its cloud', (address) => {
    expect(isSpecialAddress(address)).toBe(true)
  })

  it.each(['10.0.0.1', '192.168.1.1', '1.1.1.1', '2606:4700::1111', 'fd00::5', '64:ff9b::808:808'])(
    '%s is somewhere else',
    (address) => {
      expect(isSpecialAddress(address)).toBe(false)
    },
  )
})
