import { InvalidArgumentError } from '@commander-js/extra-typings'
import { ID_PATTERN, ID_PREFIXES } from '@tenon/core'
import { usageError } from '../errors.ts'

const LISTS = {
  run: 'tenon runs list',
  job: 'tenon jobs list',
  build: 'tenon builds list',
  token: 'tenon tokens list',
  principal: 'tenon tokens list',
  agent: 'tenon agent list',
  deploy: 'tenon deploys list INSTALL',
} as const

/** Takes an id of this kind as an argument: what is none is refused here, in words of that kind. */
export function takeId(kind: keyof typeof LISTS): (given: string) => string {
  return (given) => {
    if (isId(kind, given)) return given
    throw new InvalidArgumentError(`expected ${likeIdsOf(kind)}`)
  }
}

/** The same for an argument that may be something else, too. */
export function idOf(kind: keyof typeof LISTS, given: string): string {
  if (isId(kind, given)) return given
  throw usageError(`${JSON.stringify(given)} is no id of a ${kind}: expected ${likeIdsOf(kind)}`)
}

function isId(kind: keyof typeof LISTS, given: string): boolean {
  return given.startsWith(`${ID_PREFIXES[kind]}_`) && ID_PATTERN.test(given)
}

function likeIdsOf(kind: keyof typeof LISTS): string {
  return `an id such as ${ID_PREFIXES[kind]}_01…; \`${LISTS[kind]}\` shows them`
}
