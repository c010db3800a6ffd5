import type { Json } from '@tenon/core'

/** Stands where a secret stood. */
export const MASKED = '(sensitive)'

/** Shorter ones are hidden only where they are the whole of a value: inside text they would blank out everything. */
const MIN_INSIDE = 6

/** Knows the secret values that one operation was given, and keeps them out of everything it says. */
export class Masker {
  readonly #whole = new Set<string>()
  #inside: string[] = []

  /** Every string inside the value is secret, in itself, as JSON writes it, and in base64. */
  add(value: Json | undefined): void {
    for (const text of leaves(value)) {
      if (text === '') continue
      for (const form of formsOf(text)) this.#whole.add(form)
    }
    this.#inside = [...this.#whole]
      .filter((text) => text.length >= MIN_INSIDE)
      .toSorted((a, b) => b.length - a.length)
  }

  isSecret(text: string): boolean {
    return this.#whole.has(text) || this.#inside.some((secret) => text.includes(secret))
  }

  text(text: string): string {
    if (this.#whole.has(text)) return MASKED
    let masked = text
    for (const secret of this.#inside) {
      if (masked.includes(secret)) masked = masked.replaceAll(secret, MASKED)
    }
    return masked
  }

  json<T extends Json>(value: T): T {
    return this.#json(value) as T
  }

  holds(value: Json): boolean {
    return leaves(value).some((text) => this.isSecret(text))
  }

  #json(value: Json): Json {
    if (typeof value === 'string') return this.text(value)
    if (typeof value === 'number') return this.#whole.has(String(value)) ? MASKED : value
    if (Array.isArray(value)) return value.map((child) => this.#json(child))
    if (typeof value !== 'object' || value === null) return value
    const entries = Object.entries(value).map(([key, child]) => [this.text(key), this.#json(child)] as const)
    return Object.fromEntries(entries)
  }
}

/** A tool may print a value of several lines line by line. */
function formsOf(text: string): string[] {
  const lines = text.includes('\n') ? text.split('\n').filter((line) => line.trim().length >= 12) : []
  const quoted = JSON.stringify(text).slice(1, -1)
  return [text, text.trim(), quoted, Buffer.from(text).toString('base64'), encodeURIComponent(text), ...lines]
}

function leaves(value: Json | undefined): string[] {
  if (typeof value === 'string') return [value]
  if (typeof value === 'number') return [String(value)]
  if (typeof value !== 'object' || value === null) return []
  return Object.values(value).flatMap((child) => leaves(child))
}
