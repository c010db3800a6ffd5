/** The known name that is most like the given one, if any is alike enough to have been meant. */
export function nearest(given: string, known: Iterable<string>): string | undefined {
  let best: string | undefined
  let least = Math.max(2, Math.ceil(given.length / 3)) + 1
  const names = [...known]
  for (const name of names) {
    const distance = editDistance(given.toLowerCase(), name.toLowerCase(), least)
    if (distance < least) [best, least] = [name, distance]
  }
  const begun = given.length > 2 ? names.find((name) => name.startsWith(given)) : undefined
  return best ?? begun
}

/** Changes of one character, or swaps of two neighbours, from one word to the other; `limit` when it is that or more. */
function editDistance(a: string, b: string, limit: number): number {
  if (Math.abs(a.length - b.length) >= limit) return limit
  let before: number[] = []
  let last = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1]
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      const steps = Math.min(last[j]! + 1, row[j - 1]! + 1, last[j - 1]! + (same ? 0 : 1))
      row.push(swapped ? Math.min(steps, before[j - 2]! + 1) : steps)
    }
    if (Math.min(...row) >= limit) return limit
    before = last
    last = row
  }
  return last[b.length]!
}
