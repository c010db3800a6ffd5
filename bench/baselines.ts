import { once } from 'node:events'
import pg from 'pg'
import WebSocket from 'ws'
import { monotonicMs } from './child.ts'
import { postgresCpu } from './cpu.ts'
import type { World } from './world.ts'

const INSERT = {
  name: 'bench-row',
  text: 'insert into bench_row (id, body) values ($1, $2)',
}
const BODY = 'x'.repeat(100)
let lastRow = 0

export async function prepareRows(world: World): Promise<void> {
  await world.db.query('create table if not exists bench_row (id bigint primary key, body text not null)')
}

/** One connection, one row, one durable commit after the other: how long each took. */
export async function commitTimes(world: World, count: number): Promise<number[]> {
  const client = new pg.Client({ connectionString: world.databaseUrl })
  await client.connect()
  try {
    return await timed(count, () => client.query({ ...INSERT, values: [++lastRow, BODY] }))
  } finally {
    await client.end()
  }
}

/**
 * Single-row durable transactions per second, with as many connections as the server's pool has; and the processor time
 * of one, in Postgres and here, which tells more than the rate when others use the machine.
 */
export async function commitRate(
  world: World,
  seconds: number,
): Promise<{ perSecond: number; cpuUs: number }> {
  const pool = new pg.Pool({ connectionString: world.databaseUrl, max: world.poolSize })
  // The next measure may stop the database while the last of these connections are still closing.
  pool.on('error', () => undefined)
  let done = 0
  let stopped = false
  const workers = Array.from({ length: world.poolSize }, async () => {
    while (!stopped) {
      await pool.query({ ...INSERT, values: [++lastRow, BODY] })
      done += 1
    }
  })
  try {
    await wait(300)
    const used = async () => {
      const { user, system } = process.cpuUsage()
      return user + system + (await postgresCpu(world.db))
    }
    const usedBefore = await used()
    const before = done
    const began = monotonicMs()
    await wait(seconds * 1000)
    const perSecond = (done - before) / ((monotonicMs() - began) / 1000)
    return { perSecond, cpuUs: ((await used()) - usedBefore) / (done - before) }
  } finally {
    stopped = true
    await Promise.all(workers)
    await pool.end()
  }
}

/** Round trips over a bare WebSocket on the loopback interface to another process. */
export async function roundTrips(url: string, count: number): Promise<number[]> {
  const ws = new WebSocket(url, { perMessageDeflate: false })
  await once(ws, 'open')
  try {
    return await timed(count, async () => {
      ws.send(BODY)
      await once(ws, 'message')
    })
  } finally {
    ws.terminate()
  }
}

async function timed(count: number, act: () => Promise<unknown>): Promise<number[]> {
  const times: number[] = []
  for (let i = 0; i < count + 20; i++) {
    const began = monotonicMs()
    await act()
    if (i >= 20) times.push(monotonicMs() - began)
  }
  return times
}

function wait(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
