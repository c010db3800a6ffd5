/** States are a table, asked through `can`; a state with no way out is an end. */
export interface StateTable<S extends string> {
  readonly states: readonly S[]
  can(from: S, to: S): boolean
  isEnd(state: S): boolean
}

export function stateTable<S extends string>(table: Record<S, readonly S[]>): StateTable<S> {
  return {
    states: Object.keys(table) as S[],
    can: (from, to) => table[from].includes(to),
    isEnd: (state) => table[state].length === 0,
  }
}
