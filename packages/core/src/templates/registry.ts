import { BUILTINS } from './builtins.ts'
import type { Functions } from './functions.ts'
import { DICT_FUNCTIONS } from './sprig-dicts.ts'
import { ENCODING_FUNCTIONS } from './sprig-encoding.ts'
import { LIST_FUNCTIONS } from './sprig-lists.ts'
import { MATH_FUNCTIONS } from './sprig-math.ts'
import { STRING_FUNCTIONS } from './sprig-strings.ts'
import { TYPE_FUNCTIONS } from './sprig-types.ts'

/** Every function a template may call: Go's own, with Sprig's over them. */
export const ALL_FUNCTIONS: Functions = {
  ...BUILTINS,
  ...STRING_FUNCTIONS,
  ...MATH_FUNCTIONS,
  ...LIST_FUNCTIONS,
  ...DICT_FUNCTIONS,
  ...TYPE_FUNCTIONS,
  ...ENCODING_FUNCTIONS,
}
