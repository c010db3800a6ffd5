import { decodeText, encodeText } from '../values/bytes.ts'
import { CallError } from '../errors.ts'
import type { GoFunction } from './functions.ts'

/** A function of texts for templates, from the outside. What it throws becomes the error of the template. */
export function textFunction(parameters: number, body: (...args: string[]) => string): GoFunction {
  return {
    parameters: Array.from({ length: parameters }, () => 'string' as const),
    rest: undefined,
    call: (_, args) => {
      const texts = args.map((arg) => decodeText(String(arg)))
      try {
        return encodeText(body(...texts))
      } catch (error) {
        throw new CallError(encodeText(error instanceof Error ? error.message : String(error)), {
          cause: error,
        })
      }
    },
  }
}
