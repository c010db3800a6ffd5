import { sealEntry, signKeyChange, type SealedEntry, type SignedText } from '@tenon/core'
import { mkdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { sha256 } from '../crypto.ts'
import { startApi, TOKEN, type Api } from '../testing/api-server.ts'
import { createHome, temporaryFolder, type Home } from '../testing/run-cli.ts'
import {
  createSigner,
  fact,
  helloFact,
  reportFact,
  rootLink,
  sealChain,
  signHead,
  vouchedLink,
  type Signer,
} from '../testing/signed-audit.ts'
import { AT, install, serverInfo, testId } from '../testing/values.ts'

const CHAIN = testId('install')
const AGENT = testId('agent')
const KEY = testId('key', 1)
const NEXT_KEY = testId('key', 2)

let api: Api
let home: Home
let world: {
  key: Signer
  keyId: string
  keys: ReturnType<typeof rootLink>[]
  agentKey: Signer
  keyChanges: SignedText[]
  chains: Map<string, SealedEntry[]>
}

beforeEach(async () => {
  home = await createHome()
  const key = createSigner()
  const agentKey = createSigner()
  world = {
    key,
    keyId: KEY,
    keys: [rootLink(KEY, key)],
    agentKey,
    keyChanges: [],
    chains: new Map([
      ['server', sealChain('server', [fact(1), fact(2), fact(3)])],
      [CHAIN, sealChain(CHAIN, [fact(1), reportFact(AGENT, agentKey), fact(3), fact(4), fact(5)])],
    ]),
  }
  const headOf = (chain: string) => signHead(chain, world.chains.get(chain) ?? [], world.keyId, world.key)
  api = await startApi({
    'server.info': () => serverInfo({ keys: world.keys }),
    'installs.get': () => install(),
    'audit.chains': () => ({
      chains: [...world.chains.keys()].map(headOf),
      agents: [{ agentId: AGENT, publicKey: world.agentKey.publicKey, keyChanges: world.keyChanges }],
    }),
    'audit.entries': ({ params, query }) => {
      const chain = params['chain']!
      const after = query['afterSeq'] as number
      const from = after === 0 ? 0 : world.chains.get(chain)!.findIndex((e) => e.seq === after) + 1
      return {
        entries: world.chains.get(chain)!.slice(from, from + (query['limit'] as number)),
        head: headOf(chain),
        names: { anna: 'Anna Beispiel' },
      }
    },
  })
})
afterEach(() => api.stop())

const run = (...argv: string[]) => home.run(argv, { env: api.env })
const verify = (...more: string[]) => run('audit', 'verify', ...more)

/** The attacker owns the database and the running server, so the head is signed anew over what is left. */
function tamper(chain: string, change: (entries: SealedEntry[]) => SealedEntry[]): void {
  world.chains.set(chain, change([...world.chains.get(chain)!]))
}

describe('a chain that nobody touched', () => {
  it('verifies, with the agents’ signatures in it', async () => {
    const ran = await verify()
    expect(ran).toMatchObject({
      code: 0,
      stdout: expect.stringContaining(`ok    ${CHAIN}  5 entries, 1 signed by agents`),
    })
    expect(ran.stderr).toContain('trusting the keys of')
    expect((await verify('acme', '--json')).stdout).toContain('"ok": true')
  })

  it('verifies again after it has grown', async () => {
    await verify()
    tamper(CHAIN, (entries) => {
      const last = entries.at(-1)!
      return [...entries, sealEntry({ chain: CHAIN, seq: last.seq, hash: last.hash }, fact(6), AT, sha256)]
    })
    expect(await verify()).toMatchObject({ code: 0, stderr: '' })
  })

  it('verifies in many pages', async () => {
    world.chains.set(
      'server',
      sealChain(
        'server',
        Array.from({ length: 2500 }, (_, n) => fact(n % 200)),
      ),
    )
    const ran = await verify('server', '--json')
    expect(JSON.parse(ran.stdout)).toMatchObject({
      ok: true,
      chains: [{ chain: 'server', entries: 2500, problems: [] }],
    })
  })

  it('verifies after the server’s key was rotated, when the old key vouches for the new one', async () => {
    await verify()
    const next = createSigner()
    world.keys.push(vouchedLink(NEXT_KEY, next, { keyId: KEY, key: world.key }))
    Object.assign(world, { key: next, keyId: NEXT_KEY })
    expect((await verify()).code).toBe(0)
  })

  it('is told of by no key of the server that ended, however the server hides what came after', async () => {
    await verify()
    const [root, stolen] = [world.keys[0]!, { keyId: KEY, key: world.key }]
    const next = createSigner()
    world.keys.push(vouchedLink(NEXT_KEY, next, stolen))
    Object.assign(world, { key: next, keyId: NEXT_KEY })
    expect((await verify()).code).toBe(0)
    Object.assign(world, { ...stolen, keys: [root] })
    expect(await verify('server')).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('not signed by a known key') as string,
    })
    const forked = createSigner()
    const forkedId = testId('key', 3)
    Object.assign(world, {
      key: forked,
      keyId: forkedId,
      keys: [root, vouchedLink(forkedId, forked, stolen)],
    })
    expect(await verify('server')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(`no known key vouches for: ${forkedId}`) as string,
    })
  })

  it('verifies after an agent’s key was changed, also what the key before signed, wherever it is seen first', async () => {
    const next = createSigner()
    const change = signKeyChange(AGENT, world.agentKey, next)
    const grow = () =>
      tamper(CHAIN, (entries) => {
        const { seq, hash } = entries.at(-1)!
        return [...entries, sealEntry({ chain: CHAIN, seq, hash }, reportFact(AGENT, next), AT, sha256)]
      })
    await verify()
    grow()
    Object.assign(world, { agentKey: next, keyChanges: [change] })
    expect(await verify('acme')).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('2 signed') as string,
    })
    home = await createHome()
    expect((await verify()).code).toBe(0)
    world.keyChanges = []
    expect((await verify()).code).toBe(1)
  })
})

describe('a chain that somebody touched', () => {
  it('names the entry whose content was changed', async () => {
    tamper(CHAIN, (entries) =>
      entries.with(2, { ...entries[2]!, body: entries[2]!.body.replace('anna', 'bert') }),
    )
    const ran = await verify(CHAIN)
    expect(ran).toMatchObject({
      code: 1,
      stdout: expect.stringContaining(`FAIL  ${CHAIN}  entry 3 was changed`),
    })
    expect(ran.stderr).toContain('next:')
  })

  it('names the entry that no longer follows when one was changed with its hash', async () => {
    tamper(CHAIN, (entries) => {
      const before = entries[1]!
      return entries.with(2, sealEntry({ chain: CHAIN, seq: 2, hash: before.hash }, fact(99), AT, sha256))
    })
    const ran = await verify(CHAIN)
    expect(ran).toMatchObject({ code: 1, stdout: expect.stringContaining('entry 4 does not follow') })
  })

  it('names the entry that was removed', async () => {
    tamper(CHAIN, (entries) => entries.toSpliced(2, 1))
    expect(await verify(CHAIN)).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('entry 3 is missing'),
    })
  })

  it('shows entries in another order', async () => {
    tamper(CHAIN, (entries) => [entries[0]!, entries[2]!, entries[1]!, ...entries.slice(3)])
    expect(await verify(CHAIN)).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('entry 2 is missing'),
    })
  })

  it('shows a tail that was cut off since the last look, even under a new signed head', async () => {
    await verify()
    tamper(CHAIN, (entries) => entries.slice(0, 3))
    const ran = await verify('acme')
    expect(ran).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('entries 4 to 5 are missing at the end'),
    })
    expect((await verify('acme')).code).toBe(1)
  })

  it('shows a tail that was written anew since the last look', async () => {
    await verify()
    tamper(CHAIN, () => sealChain(CHAIN, [fact(1), fact(2), fact(3), fact(4), fact(5), fact(6)]))
    expect(await verify(CHAIN)).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('entry 5 is not the one whose hash was kept'),
    })
  })

  it('shows a whole chain that is gone', async () => {
    await verify()
    world.chains.delete(CHAIN)
    expect(await verify()).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('entries 1 to 5 are missing'),
    })
  })

  it('shows a start that the agent did not sign', async () => {
    tamper(CHAIN, () => sealChain(CHAIN, [helloFact(AGENT, world.agentKey)]))
    expect(await verify(CHAIN)).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('1 entry, 1 signed by agents'),
    })
    tamper(CHAIN, () =>
      sealChain(CHAIN, [helloFact(AGENT, world.agentKey), helloFact(AGENT, createSigner())]),
    )
    expect((await verify(CHAIN)).stdout).toContain(`entry 2 holds what agent ${AGENT} did not sign`)
  })

  it('shows a report that the agent did not sign, and an agent whose key was exchanged', async () => {
    await verify()
    const forger = createSigner()
    tamper(CHAIN, () => sealChain(CHAIN, [fact(1), reportFact(AGENT, forger), fact(3), fact(4), fact(5)]))
    expect((await verify(CHAIN)).stdout).toContain(`entry 2 holds what agent ${AGENT} did not sign`)
    world.agentKey = forger
    expect((await verify(CHAIN)).stdout).toContain(`another key of agent ${AGENT} than before`)
  })

  it('shows a server with keys that no known key vouches for, until somebody says to trust them', async () => {
    await verify()
    const key = createSigner()
    Object.assign(world, { key, keyId: NEXT_KEY, keys: [rootLink(NEXT_KEY, key)] })
    expect(await verify()).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('no known key vouches for'),
    })
    expect((await verify('--repin')).code).toBe(0)
    expect((await verify()).code).toBe(0)
  })

  it('shows a head that is not signed by a known key', async () => {
    world.key = createSigner()
    expect(await verify('server')).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('not signed by a known key'),
    })
  })
})

describe('what is known of a server', () => {
  const folderOf = async () => {
    const cwd = await temporaryFolder()
    await mkdir(join(cwd, '.tenon'))
    await writeFile(join(cwd, '.tenon', 'cli.json'), JSON.stringify({ url: api.url, tokenFile: 'token' }))
    await writeFile(join(cwd, '.tenon', 'token'), TOKEN)
    return cwd
  }
  const anew = () => {
    const key = createSigner()
    Object.assign(world, { key, keyId: NEXT_KEY, keys: [rootLink(NEXT_KEY, key)] })
  }

  it('lies in the folder that the server belongs to, so that a second folder trusts its own', async () => {
    const first = await folderOf()
    expect((await home.run(['audit', 'verify'], { cwd: first })).code).toBe(0)
    await expect(readFile(home.stateFile)).rejects.toThrow('ENOENT')
    expect((await stat(join(first, '.tenon', 'known-servers.json'))).mode & 0o777).toBe(0o600)
    anew()
    expect((await home.run(['audit', 'verify'], { cwd: first })).code).toBe(1)
    expect((await home.run(['audit', 'verify'], { cwd: await folderOf() })).code).toBe(0)
  })

  it('is what an export is checked with in that folder', async () => {
    const cwd = await folderOf()
    await home.run(['audit', 'verify'], { cwd })
    await writeFile(join(cwd, 'audit.jsonl'), (await home.run(['audit', 'export'], { cwd })).stdout)
    const ran = await home.run(['audit', 'verify', '--file', 'audit.jsonl'], { cwd })
    expect(ran).toMatchObject({ code: 0, stderr: '' })
  })

  it('goes with it to another address', async () => {
    await verify()
    const { handlers } = api
    await api.stop()
    api = await startApi(handlers)
    expect(await verify()).toMatchObject({ code: 0, stderr: '' })
    tamper(CHAIN, (entries) => entries.slice(0, 3))
    expect((await verify()).stdout).toContain('entries 4 to 5 are missing at the end')
  })
})

describe('an export', () => {
  const exported = async () => {
    const file = join(home.home, 'audit.jsonl')
    const ran = await run('audit', 'export')
    expect(ran.code).toBe(0)
    return { file, lines: ran.stdout.trimEnd().split('\n') }
  }

  it('verifies without the server, and says whose keys it trusts', async () => {
    const { file, lines } = await exported()
    await writeFile(file, lines.join('\n'))
    await api.stop()
    const ran = await home.run(['audit', 'verify', '--file', file])
    expect(ran).toMatchObject({ code: 0, stdout: expect.stringContaining(`ok    ${CHAIN}  5 entries`) })
    expect(ran.stderr).toContain('checking with the keys in the export itself')
    api = await startApi({})
  })

  it('fails when a line was changed or removed, or its end cut off', async () => {
    const { file, lines } = await exported()
    const entryAt = lines.findIndex((line) => line.includes(CHAIN) && line.includes('"seq":4'))
    for (const broken of [
      lines.with(entryAt, lines[entryAt]!.replaceAll('anna', 'bert')),
      lines.toSpliced(entryAt, 1),
      lines.slice(0, -1),
    ]) {
      await writeFile(file, broken.join('\n'))
      expect((await home.run(['audit', 'verify', '--file', file])).code).toBe(1)
    }
    await writeFile(file, 'nonsense')
    expect((await home.run(['audit', 'verify', '--file', file])).code).toBe(1)
  })
})

describe('listing the audit', () => {
  it('shows the chains, or the newest entries of one', async () => {
    expect((await run('audit', 'list')).stdout).toMatch(/^server +3 /m)
    const ran = await run('audit', 'list', 'acme', '--limit', '2')
    expect(ran.stdout.trimEnd().split('\n')).toHaveLength(3)
    expect(ran.stdout).toMatch(/^5 .+ user Anna Beispiel anna +deploy\.created +run /m)
    expect(JSON.parse((await run('audit', 'list', 'server', '--json')).stdout)).toHaveProperty(
      'head.chain',
      'server',
    )
  })
})
