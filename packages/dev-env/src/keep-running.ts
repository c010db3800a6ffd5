import type { Program } from './program.ts'

const MOST_DEATHS = 3
const WITHIN_MS = 60_000

/** Pure: what dies over and over would go on dying. */
export function mayStartAgain(deaths: readonly number[], now: number): boolean {
  return deaths.filter((at) => now - at < WITHIN_MS).length < MOST_DEATHS
}

/** The words for an exit code of `Program.exited`. */
function howItEnded(code: number): string {
  return code === -1 ? 'killed by a signal' : `with ${code}`
}

export interface KeepRunning {
  /** Names each program and how it is started once more. */
  watch(program: Program, again: () => Promise<Program>): void
  /** From now on programs may end. */
  stop(): void
  /** Rejects when a program cannot be kept running. */
  failed: Promise<never>
}

/** Whatever ends by itself is said and started again, until it dies too often. */
export function keepRunning(print: (line: string) => void, now: () => number): KeepRunning {
  let isStopping = false
  let reject: (error: unknown) => void = () => undefined
  const failed = new Promise<never>((_, fail) => (reject = fail))
  failed.catch(() => undefined)

  async function keep(program: Program, again: () => Promise<Program>): Promise<void> {
    const deaths: number[] = []
    for (let current = program; ;) {
      const code = await current.exited
      if (isStopping) return
      deaths.push(now())
      const said = `${current.name} ended by itself, ${howItEnded(code)}`
      if (!mayStartAgain(deaths, now())) throw new KeptDying(current.name, said)
      print(`${said}; it is started again.`)
      current = await again()
      print(`${current.name} runs again.`)
    }
  }
  return {
    watch: (program, again) =>
      void keep(program, again).catch((error: unknown) => {
        if (!isStopping) reject(error)
      }),
    stop: () => void (isStopping = true),
    failed,
  }
}

export class KeptDying extends Error {
  readonly program: string

  constructor(program: string, said: string) {
    super(`${said}, ${MOST_DEATHS} times within a minute`)
    this.name = 'KeptDying'
    this.program = program
  }
}
