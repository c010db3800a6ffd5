import { BUILTINS } from './builtins.ts'
import type { Functions } from './functions.ts'
import { DATE_FUNCTIONS } from '../sprig/dates.ts'
import { DICT_FUNCTIONS } from '../sprig/dicts.ts'
import { ENCODING_FUNCTIONS } from '../sprig/encoding.ts'
import { LIST_FUNCTIONS } from '../sprig/lists.ts'
import { MATH_FUNCTIONS } from '../sprig/math.ts'
import { PATH_FUNCTIONS } from '../sprig/paths.ts'
import { REGEX_FUNCTIONS } from '../sprig/regex.ts'
import { SEMVER_FUNCTIONS } from '../sprig/semver.ts'
import { STRING_FUNCTIONS } from '../sprig/strings.ts'
import { TYPE_FUNCTIONS } from '../sprig/types.ts'
import { URL_FUNCTIONS } from '../sprig/urls.ts'

/** Every function a template may call: Go's own, with Sprig's over them. */
export const ALL_FUNCTIONS: Functions = {
  ...BUILTINS,
  ...STRING_FUNCTIONS,
  ...MATH_FUNCTIONS,
  ...LIST_FUNCTIONS,
  ...DICT_FUNCTIONS,
  ...TYPE_FUNCTIONS,
  ...ENCODING_FUNCTIONS,
  ...REGEX_FUNCTIONS,
  ...SEMVER_FUNCTIONS,
  ...URL_FUNCTIONS,
  ...PATH_FUNCTIONS,
  ...DATE_FUNCTIONS,
}
