import { InvalidArgumentError } from '@commander-js/extra-typings'
import { ID_PATTERN, ID_PREFIXES } from '@tenon/core'

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
  const prefix = `${ID_PREFIXES[kind]}_`
  return (given) => {
    if (given.startsWith(prefix) && ID_PATTERN.test(given)) return given
    throw new InvalidArgumentError(`expected an id such as ${prefix}01…; \`${LISTS[kind]}\` shows them`)
  }
}
