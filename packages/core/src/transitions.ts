/** States are a table, asked through `can`; a state with no way out is an end. */
export interface StateTable<S extends string> {
  readonly states: readonly S[]
  /** False also for words that are no states: they may come from a row that a newer version wrote. */
  can(from: S, to: S): boolean
  isEnd(state: S): boolean
}

export function stateTable<S extends string>(table: Record<S, readonly S[]>): StateTable<S> {
  const waysOut = new Map<string, readonly S[]>(Object.entries(table))
  return {
    states: Object.keys(table) as S[],
    can: (from, to) => waysOut.get(from)?.includes(to) ?? false,
    isEnd: (state) => waysOut.get(state)?.length === 0,
  }
}
