import { laneOf, shortageOf, type Capacity, type Holder, type Lane, type Shortage } from '@tenon/core'

interface Waiter {
  job: Holder
  /** Goes before those that were assigned after it began to be held. */
  isFirst: boolean
  grant: () => void
  /** Told when it begins to wait, and whenever what is in its way may have changed. */
  onShortage: (shortage: Shortage, ahead: number) => void
}

/**
 * Which jobs run at once. In each lane they start in the order in which they came, so that a large job is not passed
 * for ever by small ones; lanes do not wait for each other.
 */
export class Slots {
  readonly #capacity: Capacity
  readonly #holders = new Map<string, Holder>()
  readonly #waiting: Record<Lane, Waiter[]> = { ordinary: [], interactive: [] }

  constructor(capacity: Capacity) {
    this.#capacity = capacity
  }

  get used(): number {
    return this.#holders.size
  }

  get total(): number {
    return this.#capacity.slots + this.#capacity.interactiveSlots
  }

  /** For a job that runs already: it takes a slot whether one is free or not. */
  take(job: Holder): void {
    this.#holders.set(job.jobId, job)
  }

  /** Resolves false when aborted before there was a slot; then nothing is held. */
  acquire(
    job: Holder,
    signal: AbortSignal,
    onShortage: Waiter['onShortage'],
    isFirst = false,
  ): Promise<boolean> {
    if (signal.aborted) return Promise.resolve(false)
    return new Promise((resolve) => {
      const queue = this.#waiting[laneOf(job.kind)]
      const waiter: Waiter = {
        job,
        isFirst,
        onShortage,
        grant: () => {
          signal.removeEventListener('abort', giveUp)
          this.take(job)
          resolve(true)
        },
      }
      const giveUp = () => {
        queue.splice(queue.indexOf(waiter), 1)
        resolve(false)
        this.#letIn()
      }
      signal.addEventListener('abort', giveUp, { once: true })
      const behind = isFirst ? queue.findIndex((other) => !other.isFirst) : -1
      queue.splice(behind === -1 ? queue.length : behind, 0, waiter)
      this.#letIn()
    })
  }

  release(jobId: string): void {
    this.#holders.delete(jobId)
    this.#letIn()
  }

  #letIn(): void {
    for (const queue of Object.values(this.#waiting)) {
      let shortage = this.#shortageOf(queue[0])
      while (queue.length > 0 && !shortage) {
        queue.shift()?.grant()
        shortage = this.#shortageOf(queue[0])
      }
      for (const [ahead, waiter] of queue.entries()) {
        const own = this.#shortageOf(waiter) ?? shortage
        if (own) waiter.onShortage(own, ahead)
      }
    }
  }

  #shortageOf(waiter: Waiter | undefined): Shortage | undefined {
    return waiter && shortageOf(this.#capacity, [...this.#holders.values()], waiter.job)
  }
}
