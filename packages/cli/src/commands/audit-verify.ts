import { agentKeys, usableKeys } from '@tenon/core'
import type { CallOutput, Client } from '@tenon/protocol'
import { resolve } from 'node:path'
import { chainId } from '../audit/chain-id.ts'
import { readExport, type ExportHeader } from '../audit/export.ts'
import {
  keptHead,
  readKnownServers,
  recogniseServer,
  rememberServer,
  serverKeys,
  type KnownServer,
} from '../audit/known-servers.ts'
import { readChain } from '../audit/read-chain.ts'
import { recognise } from '../audit/recognise.ts'
import { createChainVerifier, type ChainKeys, type ChainVerdict } from '../audit/verify-chain.ts'
import type { Cli } from '../cli.ts'
import { knownFiles } from '../config/resolve.ts'
import { usageError } from '../errors.ts'
import { EXIT } from '../exit-codes.ts'
import { plain } from '../output/clean.ts'
import { withProgress } from '../output/progress.ts'
import { plural } from '../output/words.ts'
import { verifyEd25519 } from '../crypto.ts'

interface Options {
  all?: true | undefined
  file?: string | undefined
  repin?: true | undefined
}

export async function verifyAudit(cli: Cli, chain: string | undefined, options: Options): Promise<void> {
  if (chain !== undefined && options.all) throw usageError('name a chain or give --all, not both')
  const verdicts =
    options.file === undefined
      ? await verifyServer(cli, chain, options.repin === true)
      : await verifyFile(cli, chain, resolve(cli.io.cwd, options.file))
  show(cli, verdicts)
  if (verdicts.some((verdict) => verdict.problems.length > 0)) cli.exitCode = EXIT.failed
}

async function verifyServer(cli: Cli, given: string | undefined, repin: boolean): Promise<ChainVerdict[]> {
  const client = await cli.client()
  const { known, ...server } = await recognise(cli, client, repin)
  const listed = await client.call('audit.chains', {})
  const changedAgents = learnAgents(known, listed.agents)
  const gone = Object.keys(known.heads).filter((id) => !listed.chains.some((c) => c.chain === id))
  const wanted =
    given === undefined ? [...listed.chains.map((c) => c.chain), ...gone] : [await chainId(client, given)]
  // Heads are signed when they are asked for: a key that ended signs none.
  const current = usableKeys(serverKeys(known), cli.io.clock.now())
  const keys = { server: current, agents: agentKeysOf(known, listed.agents) }
  const verdicts: ChainVerdict[] = []
  for (const id of wanted) {
    const head = listed.chains.find((c) => c.chain === id)
    verdicts.push(await verifyOne(cli, client, id, { known, keys, listed: head }))
  }
  for (const message of changedAgents) {
    verdicts[0]?.problems.push({ seq: 0, code: 'unknown_agent', message })
  }
  for (const { chain, head, problems } of verdicts) {
    if (problems.length === 0) known.heads[chain] = { seq: head.seq, hash: head.hash }
  }
  await rememberServer(server, known, repin)
  return verdicts
}

type Listed = CallOutput<'audit.chains'>['chains'][number] | undefined

async function verifyOne(
  cli: Cli,
  client: Client,
  chain: string,
  seen: { known: KnownServer; keys: ChainKeys; listed: Listed },
): Promise<ChainVerdict> {
  const { known, keys, listed } = seen
  const verifier = createChainVerifier(chain, keys, keptHead(known, chain))
  if (listed) verifier.signedHead(listed)
  // A chain that was there and is not listed any more has nothing to read: the kept head says what is missing.
  const isGone = !listed && keptHead(known, chain) !== undefined
  let count = 0
  const read = async () => {
    for await (const { entries, head } of readChain(client, chain)) {
      verifier.signedHead(head)
      verifier.push(entries)
      count += entries.length
    }
  }
  if (!isGone)
    await withProgress(cli.io, () => `checking ${chain}: ${plural(count, 'entry', 'entries')}`, read())
  return verifier.end()
}

/** From the key by which this machine knows an agent, along the changes of keys that both keys signed. */
function agentKeysOf(known: KnownServer, agents: ExportHeader['agents']): ChainKeys['agents'] {
  const changes = new Map(agents.map((agent) => [agent.agentId, agent.keyChanges]))
  const all = Object.entries(known.agents).map(([id, key]): [string, string[]] => [
    id,
    agentKeys(id, key, changes.get(id) ?? [], verifyEd25519),
  ])
  return new Map(all)
}

/** Takes in agents not seen before; one with a key to which no change leads from the known one is named. */
function learnAgents(known: KnownServer, agents: ExportHeader['agents']): string[] {
  const changed: string[] = []
  for (const { agentId, publicKey, keyChanges } of agents) {
    const before = Object.hasOwn(known.agents, agentId) ? known.agents[agentId] : undefined
    if (before === undefined) known.agents[agentId] = publicKey
    else if (!agentKeys(agentId, before, keyChanges, verifyEd25519).includes(publicKey))
      changed.push(`the server shows another key of agent ${agentId} than before`)
  }
  return changed
}

/** Offline: with what this machine knows of that server, else with the export's own keys, which is said. */
async function verifyFile(cli: Cli, given: string | undefined, path: string): Promise<ChainVerdict[]> {
  const { header, lines } = await readExport(path)
  const files = await knownFiles(cli.io)
  const known = (await Promise.all(files.map(readKnownServers))).flatMap(Object.entries<KnownServer>)
  const remembered = known.find(([, s]) => s.serverId === header.serverId)
  if (!remembered) {
    cli.out.note(`this machine does not know ${header.serverId}: checking with the keys in the export itself`)
  }
  const trusted = recogniseServer(remembered?.[1], header, {
    url: remembered?.[0] ?? path,
    nowMs: cli.io.clock.now(),
  })
  const changedAgents = learnAgents(trusted, header.agents)
  const wanted = given === undefined ? undefined : new Set([given])
  const verifiers = new Map<string, ReturnType<typeof createChainVerifier>>()
  const keys = { server: serverKeys(trusted).pinned, agents: agentKeysOf(trusted, header.agents) }
  const verifierOf = (chain: string) => {
    const found = verifiers.get(chain) ?? createChainVerifier(chain, keys, keptHead(trusted, chain))
    verifiers.set(chain, found)
    return found
  }
  for await (const line of lines) {
    const chain = 'head' in line ? line.head.chain : line.chain
    if (wanted && !wanted.has(chain)) continue
    if ('head' in line) verifierOf(chain).signedHead(line.head)
    else verifierOf(chain).push([line.entry])
  }
  if (given !== undefined && !verifiers.has(given)) {
    throw usageError(`the export has no chain ${given}`, 'in an export, name an install by its id')
  }
  const verdicts = [...verifiers.values()].map((verifier) => verifier.end())
  for (const message of changedAgents) verdicts[0]?.problems.push({ seq: 0, code: 'unknown_agent', message })
  return verdicts
}

function show(cli: Cli, verdicts: readonly ChainVerdict[]): void {
  const { out } = cli
  if (cli.globals.json)
    return out.json({ ok: verdicts.every((v) => v.problems.length === 0), chains: verdicts })
  for (const { chain, entries, signed, head, problems } of verdicts) {
    const sums = `${plural(entries, 'entry', 'entries')}, ${signed} signed by agents`
    const first = problems[0]
    if (!first) {
      out.line(`${out.paint.green('ok')}    ${chain}  ${sums}, head ${head.hash.slice(0, 16)}`)
      continue
    }
    out.line(`${out.paint.red('FAIL')}  ${chain}  ${plain(first.message)}`)
    for (const problem of problems.slice(1, 10)) out.line(`      ${plain(problem.message)}`)
    if (problems.length > 10) out.line(`      and ${problems.length - 10} more after it`)
  }
  if (verdicts.some((v) => v.problems.length > 0)) {
    out.note(
      'next: keep this machine’s state and an export (tenon audit export), and ask whoever runs the database',
    )
  }
}
