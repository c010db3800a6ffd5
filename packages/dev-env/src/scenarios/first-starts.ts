import { createClient } from '@tenon/protocol'
import { once } from 'node:events'
import { readFileSync, rmSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { runTenon } from '../command.ts'
import { auditOf } from '../expectations.ts'
import { ProgramFailed } from '../program.ts'
import { Stage } from '../stage.ts'
import type { Dists } from '../world.ts'
import { assert } from './shared.ts'

/** A newcomer's folder, with the server's own PostgreSQL in it; and an owner who loses the token twice. */
export async function playFirstStart(dists: Dists): Promise<void> {
  const stage = new Stage(dists)
  const tokenFile = join(stage.dir, 'server', 'owner.token')
  try {
    await startOnBusyPort(stage)
    await stage.begin(undefined)
    const { you } = await stage.client.call('server.info', {})
    assert(you.role === 'owner', `the first token is that of ${you.role}`)
    const refused = await revoke(stage, you.tokenId).then(
      () => 'nothing',
      (error: { remedy?: string }) => error.remedy,
    )
    assert(/tenon server recover-owner/.test(refused ?? ''), `the last owner is told ${refused}`)

    rmSync(tokenFile)
    await recover(stage)
    await revoke(stage, you.tokenId)
    await stage.killServer()
    rmSync(tokenFile)
    // On the machine of a server that is not there.
    await recover(stage)
    await stage.startServer()
    const { items } = await stage.client.call('tokens.list', {})
    const names = items.map(({ name }) => name).join(', ')
    assert(names === 'recovered owner, recovered owner, owner', `there are the tokens ${names}`)
    const told = (await auditOf(stage)).filter(({ action }) => action === 'owner.recovered')
    assert(told.length === 2, `the audit has ${told.length} recoveries`)
  } catch (error) {
    throw new Error(`${(error as Error).message}\n${stage.lastWords()}`, { cause: error })
  } finally {
    await stage.end()
  }
}

async function startOnBusyPort({ world }: Stage): Promise<void> {
  const busy = createServer().listen(0, '127.0.0.1')
  await once(busy, 'listening')
  const { port } = busy.address() as AddressInfo
  const started = await world.startServer({ port }).catch((error: unknown) => error)
  busy.close()
  assert(started instanceof ProgramFailed, 'a server started on a busy port')
  assert(/port/.test(started.words), `a busy port is told as: ${started.words}`)
}

/** `tenon server recover-owner`, which names the file of the new token. */
async function recover(stage: Stage): Promise<void> {
  const env = { TENON_DATA_DIR: join(stage.dir, 'server') }
  const { code, output } = await runTenon(stage, ['server', 'recover-owner'], env)
  assert(code === 0, `tenon server recover-owner ended with ${code}: ${output}`)
  assert(output.includes(join(stage.dir, 'server', 'owner.token')), `it names no file: ${output}`)
}

async function revoke(stage: Stage, id: string): Promise<void> {
  const token = readFileSync(join(stage.dir, 'server', 'owner.token'), 'utf8').trim()
  const client = createClient({ url: stage.server.url, token })
  await client.call('tokens.revoke', { params: { id } })
}
