/** How many jobs run at once. Others wait in the order in which they came. */
export class Slots {
  readonly #max: number
  #used = 0
  readonly #waiting: (() => void)[] = []

  constructor(max: number) {
    this.#max = max
  }

  get used(): number {
    return this.#used
  }

  /** For a job that runs already: it takes its slot whether one is free or not. */
  take(): void {
    this.#used += 1
  }

  /** Resolves false when aborted before a slot was free; then nothing is held. */
  acquire(signal: AbortSignal): Promise<boolean> {
    if (signal.aborted) return Promise.resolve(false)
    if (this.#used < this.#max) {
      this.#used += 1
      return Promise.resolve(true)
    }
    return new Promise((resolve) => {
      const grant = () => {
        signal.removeEventListener('abort', giveUp)
        this.#used += 1
        resolve(true)
      }
      const giveUp = () => {
        this.#waiting.splice(this.#waiting.indexOf(grant), 1)
        resolve(false)
      }
      signal.addEventListener('abort', giveUp, { once: true })
      this.#waiting.push(grant)
    })
  }

  release(): void {
    this.#used -= 1
    if (this.#used < this.#max) this.#waiting.shift()?.()
  }
}
