import type { ActionOn } from '@tenon/core'

export interface CountedRefusal {
  chain: string
  action: ActionOn<'server'>
  code: string
  count: number
  /** When the one that was written came, and the last that was only counted. */
  fromMs: number
  untilMs: number
}

/** What strangers are refused: nobody can make rows here as fast as he can ask. One per process. */
export interface Refusals {
  /**
   * Whether this one is written as it is; otherwise it is counted. Kinds are few: the caller chooses none of them. Of the
   * same `request` the answer stays what it was: a change may be made again.
   */
  admit(request: object, chain: string, action: ActionOn<'server'>, code: string, nowMs: number): boolean
  /** What was counted and whose time is over; with `all` also what goes on. */
  due(nowMs: number, all: boolean): CountedRefusal[]
  written(some: readonly CountedRefusal[], nowMs: number): void
}
