import type { Exchange } from './exchange.ts'
import { RegistryRefusal } from './respond.ts'

/** `others` are the methods of the address beside DELETE. */
export const notAllowed = ({ deletes }: Pick<Exchange, 'deletes'>, others: string): RegistryRefusal =>
  new RegistryRefusal(405, 'UNSUPPORTED', 'The method does not fit this address', {
    Allow: deletes ? `${others}, DELETE` : others,
  })

/** Where nothing can be deleted, no token could help: that is said before anybody is asked for one. */
export const requireDeletes = ({ deletes }: Pick<Exchange, 'deletes'>, others: string): void => {
  if (deletes) return
  const message = 'This registry deletes nothing on request; garbage collection removes what is not needed'
  throw new RegistryRefusal(405, 'UNSUPPORTED', message, { Allow: others })
}
