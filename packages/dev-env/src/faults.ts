import type { Job, Run, Stage } from './stage.ts'
import { until } from './until.ts'
import type { Direction, WireFrame } from './wire.ts'

/** When something is done: at a frame before it goes on, or as soon as a fact holds. */
export type Moment =
  | {
      at: Direction
      frame: string
      job?: string
      nth?: number
      drop?: true
      /** What goes on in its place. */
      change?: (frame: WireFrame) => string
    }
  | { job: string; is: Job['status'] }
  | { run: Run['status']; waitsFor?: RegExp }
  | { exits: string; with: number }
  | 'then'

export type Act =
  | 'kill server'
  | 'start server'
  | 'kill agent'
  | 'start agent'
  /** By the customer, at the agent's side. */
  | 'pause agent'
  | 'resume agent'
  | 'cut'
  | 'mend'
  | { release: string }
  /** Remembers the frame of this moment under a name. */
  | { keep: string }
  | { cancel: string }
  | { settle: string; outcome: 'succeeded' | 'failed' | 'canceled' }
  | ((stage: Stage) => Promise<void> | void)

export interface Fault {
  when: Moment
  then: Act[]
}

/** A fault at a frame listens from now on; the others look when their turn comes. */
export function armFault(stage: Stage, { when, then }: Fault): { happen(): Promise<void> } {
  const act = async (frame?: WireFrame) => {
    for (const one of then) await perform(stage, one, frame)
  }
  if (when === 'then' || !('at' in when)) {
    return {
      async happen() {
        if (when !== 'then') await come(stage, when)
        await act()
      },
    }
  }
  let seen = 0
  let happened = false
  const matches = (frame: WireFrame) =>
    (when.job === undefined || frame.job === when.job) && ++seen === (when.nth ?? 1)
  const tapped = stage.wire().once(when.at, when.frame, matches, async (frame) => {
    await act(frame)
    if (when.change) return { instead: when.change(frame) }
    return when.drop ? 'drop' : 'pass'
  })
  let problem: unknown
  tapped.then(
    () => (happened = true),
    (error: unknown) => (problem = error),
  )
  return {
    async happen() {
      const name = `the frame ${when.frame} ${when.at}${when.job ? ` of ${when.job}` : ''}`
      await until(name, () => happened || problem !== undefined)
      if (problem) throw problem as Error
    },
  }
}

async function come(stage: Stage, when: Exclude<Moment, 'then' | { at: Direction }>): Promise<void> {
  if ('job' in when) {
    await stage.untilJob(when.job, when.is)
  } else if ('run' in when) {
    await until(`the run to be ${when.run} and wait for ${when.waitsFor}`, async () => {
      const { status, waiting } = await stage.run()
      const isSaid = waiting.some(({ message }) => when.waitsFor?.test(message))
      return status === when.run && (when.waitsFor === undefined || isSaid)
    })
  } else {
    await untilExit(stage, when.exits, when.with)
  }
}

export async function untilExit(stage: Stage, name: string, code: number): Promise<void> {
  const program = stage.agents.get(name)
  if (!program) throw new Error(`there is no agent ${name}`)
  let ended: number | undefined
  void program.exited.then((exit) => (ended = exit))
  await until(`the agent ${name} to end`, () => ended !== undefined)
  if (ended !== code) throw new Error(`the agent ${name} ended with ${ended}, not ${code}`)
}

async function perform(stage: Stage, act: Act, frame: WireFrame | undefined): Promise<void> {
  if (typeof act === 'function') return act(stage)
  if (typeof act === 'string') return performNamed(stage, act)
  if ('release' in act) return stage.release(act.release)
  if ('keep' in act) {
    if (!frame) throw new Error(`there is no frame to keep as ${act.keep}`)
    return stage.keep(act.keep, frame)
  }
  if ('cancel' in act) {
    const id = await stage.jobId(act.cancel)
    await stage.client.call('jobs.cancel', { params: { id } })
    return
  }
  const id = await stage.jobId(act.settle)
  const body = { outcome: act.outcome, reason: 'looked at the machine' }
  await stage.client.call('jobs.settle', { params: { id }, body })
}

async function performNamed(stage: Stage, act: Extract<Act, string>): Promise<void> {
  switch (act) {
    case 'kill server':
      return stage.killServer()
    case 'start server':
      return stage.startServer()
    case 'kill agent':
      return stage.killAgent()
    case 'start agent':
      await stage.startAgent()
      return
    case 'pause agent':
      return stage.atAgent('pause')
    case 'resume agent':
      return stage.atAgent('resume')
    case 'cut':
      return stage.wire().cut()
    case 'mend':
      return stage.wire().mend()
  }
}
