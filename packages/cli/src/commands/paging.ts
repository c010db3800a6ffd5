import { InvalidArgumentError } from '@commander-js/extra-typings'
import { ID_PATTERN } from '@tenon/core'
import type { Cli } from '../cli.ts'
import type { Column } from '../output/table.ts'

export function wholeNumber(least: number, most: number): (value: string) => number {
  return (value) => {
    const number = Number(value)
    if (Number.isInteger(number) && number >= least && number <= most) return number
    throw new InvalidArgumentError(`expected a whole number from ${least} to ${most}`)
  }
}

export const LIMIT = ['--limit <n>', 'how many to show, at most 200', wholeNumber(1, 200), 50] as const
export const AFTER = ['--after <id>', 'go on after this id, the last of the page before', anyId] as const

function anyId(given: string): string {
  if (ID_PATTERN.test(given)) return given
  throw new InvalidArgumentError('expected the id that the page before named in its last line')
}

/** One page of a list: the API's own document, or a table and how to see the rest. */
export function showPage<T>(
  cli: Cli,
  page: { items: T[]; next: string | null },
  columns: readonly Column<T>[],
  empty: string,
): void {
  if (cli.globals.json) return cli.out.json(page)
  cli.out.table(columns, page.items, empty)
  if (page.next !== null) cli.out.note(`more: add --after ${page.next}`)
}

export interface PageOptions {
  limit: number
  after?: string | undefined
}

export function pageQuery({ limit, after }: PageOptions): { limit: number; after?: string } {
  return after === undefined ? { limit } : { limit, after }
}
