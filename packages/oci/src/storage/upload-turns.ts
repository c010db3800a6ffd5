import { OciError } from '../errors.ts'

/**
 * One request at a time writes an upload. A newer one takes over: who resumes has given up the older,
 * whose connection may take long to be noticed as dead.
 */
export interface Turns {
  take<T>(id: string, work: (writer: Writer) => Promise<T>): Promise<T>
}

export const createTurns = (): Turns => {
  const busy = new Map<string, Writer>()
  return {
    take: async (id, work) => {
      for (let older = busy.get(id); older !== undefined; older = busy.get(id)) {
        older.stop()
        await older.done
      }
      let finished = (): void => {}
      const writer = createWriter(new Promise<void>((resolve) => (finished = resolve)))
      busy.set(id, writer)
      try {
        return await work(writer)
      } finally {
        busy.delete(id)
        finished()
      }
    },
  }
}

export interface Writer {
  stop(): void
  done: Promise<void>
  /** The source until it ends or the writer is stopped, even while the source is silent. */
  until(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array>
}

const createWriter = (done: Promise<void>): Writer => {
  let stop = (): void => {}
  let isStopped = false
  const takenOver = (): OciError =>
    new OciError('RANGE_INVALID', 'Another request goes on with this upload; ask for its status')
  const nextOf = (iterator: AsyncIterator<Uint8Array>): Promise<IteratorResult<Uint8Array>> =>
    new Promise((resolve, reject) => {
      stop = () => reject(takenOver())
      if (isStopped) stop()
      else iterator.next().then(resolve, reject)
    })
  return {
    done,
    stop: () => {
      isStopped = true
      stop()
    },
    async *until(source) {
      const iterator = source[Symbol.asyncIterator]()
      for (let next = await nextOf(iterator); next.done !== true; next = await nextOf(iterator))
        yield next.value
    },
  }
}
