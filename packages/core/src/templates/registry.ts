import { BUILTINS } from './builtins.ts'
import type { Functions } from './functions.ts'

/** Every function a template may call: Go's own, with Sprig's over them. */
export const ALL_FUNCTIONS: Functions = { ...BUILTINS }
