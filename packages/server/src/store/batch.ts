import { isDatabaseAway } from './database.ts'

/**
 * Work that comes while some is under way goes together in the next call: alone it waits for nothing, under load
 * many share one transaction. A batch that fails is done again one by one, so that one item cannot hurt another.
 */
export function createBatcher<T, R>(
  max: number,
  run: (items: readonly T[]) => Promise<readonly R[]>,
): (item: T) => Promise<R> {
  type Waiting = { item: T; resolve: (result: R) => void; reject: (error: unknown) => void }
  let waiting: Waiting[] = []
  let busy = false

  async function drain(): Promise<void> {
    busy = true
    while (waiting.length > 0) {
      const batch = waiting.slice(0, max)
      waiting = waiting.slice(max)
      await attempt(batch)
    }
    busy = false
  }

  async function attempt(batch: Waiting[]): Promise<void> {
    try {
      const results = await run(batch.map(({ item }) => item))
      batch.forEach(({ resolve }, index) => resolve(results[index]!))
    } catch (error) {
      if (batch.length === 1 || isDatabaseAway(error)) for (const { reject } of batch) reject(error)
      else for (const one of batch) await attempt([one])
    }
  }

  return (item) =>
    new Promise((resolve, reject) => {
      waiting.push({ item, resolve, reject })
      if (!busy) void drain()
    })
}
