import { describe, expect, it } from 'vitest'
import { chooseAccount } from './account.ts'

const passwd = `root:x:0:0:root:/root:/bin/sh
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
nobody:x:65534:65533:nobody:/:/usr/sbin/nologin
postgres:x:101:104:PostgreSQL:/var/lib/postgresql:/bin/sh
broken line
`

const without = (name: string, from: string) => from.replace(new RegExp(`^${name}:.*\n`, 'm'), '')

describe('chooseAccount', () => {
  it('keeps everybody but root as they are', () => {
    expect(chooseAccount(1000, passwd, undefined)).toBe(undefined)
    expect(chooseAccount(undefined, '', undefined)).toBe(undefined)
  })

  it('gives a new database of root to postgres, else to nobody, else to whoever there is', () => {
    expect(chooseAccount(0, passwd, undefined)).toEqual({ name: 'postgres', uid: 101, gid: 104 })
    const bare = without('postgres', passwd)
    expect(chooseAccount(0, bare, undefined)).toEqual({ name: 'nobody', uid: 65534, gid: 65533 })
    expect(chooseAccount(0, without('nobody', bare), undefined)?.name).toBe('daemon')
  })

  it('leaves an existing database to its owner, listed or not, unless that is root', () => {
    expect(chooseAccount(0, passwd, { uid: 1, gid: 1 })?.name).toBe('daemon')
    expect(chooseAccount(0, passwd, { uid: 4711, gid: 12 })).toMatchObject({ uid: 4711, gid: 12 })
    expect(chooseAccount(0, passwd, { uid: 0, gid: 0 })?.name).toBe('postgres')
  })

  it('says what to do when there is nobody but root', () => {
    expect(() => chooseAccount(0, 'root:x:0:0:root:/root:/bin/sh\n', undefined)).toThrow(
      expect.objectContaining({ code: 'postgres_no_account' }),
    )
  })
})
