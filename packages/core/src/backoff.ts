/** Full jitter: anywhere between nothing and the doubled, capped delay, so that a fleet does not come back as one. */
export function fullJitter(attempt: number, random: number, baseMs: number, capMs: number): number {
  return Math.floor(random * Math.min(capMs, baseMs * 2 ** Math.min(attempt, 30)))
}
