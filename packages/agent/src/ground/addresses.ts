import { BlockList, isIP } from 'node:net'

const SPECIAL: readonly (readonly [network: string, bits: number, family: 'ipv4' | 'ipv6'])[] = [
  ['127.0.0.0', 8, 'ipv4'],
  ['0.0.0.0', 8, 'ipv4'],
  ['169.254.0.0', 16, 'ipv4'],
  ['224.0.0.0', 3, 'ipv4'],
  ['::', 128, 'ipv6'],
  ['::1', 128, 'ipv6'],
  ['fe80::', 10, 'ipv6'],
  ['ff00::', 8, 'ipv6'],
  // Where clouds that do not use a link-local address serve a machine's credentials.
  ['100.100.100.200', 32, 'ipv4'],
  ['168.63.129.16', 32, 'ipv4'],
  ['192.0.0.192', 32, 'ipv4'],
  ['fd00:ec2::254', 128, 'ipv6'],
  ['fd20:ce::254', 128, 'ipv6'],
]

const special = new BlockList()
for (const rule of SPECIAL) special.addSubnet(...rule)

/** Pure: whether a name that leads there leads to this machine or its cloud's metadata, not into the world. */
export function isSpecialAddress(address: string): boolean {
  const family = isIP(address)
  if (family === 0) return true
  const embedded = family === 6 ? embeddedIpv4(address) : undefined
  if (embedded !== undefined && special.check(embedded, 'ipv4')) return true
  return special.check(address, family === 6 ? 'ipv6' : 'ipv4')
}

/** Pure: of `::ffff:a.b.c.d`, `::a.b.c.d` and of NAT64, which are other ways to write an address of version 4. */
function embeddedIpv4(address: string): string | undefined {
  const short = new URL(`http://[${address.replace(/%.*$/, '')}]`).hostname.slice(1, -1)
  const match = /^(?:::ffff:|64:ff9b::|::)([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(short)
  if (!match) return undefined
  const [high, low] = [match[1], match[2]].map((part) => Number.parseInt(part ?? '0', 16))
  return [high! >> 8, high! & 255, low! >> 8, low! & 255].join('.')
}
