import { BASE32, BASE64, decodeBase, encodeBase } from './base-n.ts'
import type { Budget } from '../budget.ts'
import { CallError } from '../errors.ts'
import { fn, type Functions, metered } from '../functions/functions.ts'
import { fromJson, type JsonStyle, toJson } from '../values/go-json.ts'
import { adler32, sha1, sha256 } from './hashes.ts'
import type { Value } from '../values/values.ts'
import { fromYaml } from '../yaml/from-yaml.ts'
import { toYaml } from '../yaml/write.ts'

const PLAIN: JsonStyle = { escapesHtml: true, indent: '' }
const PRETTY: JsonStyle = { escapesHtml: true, indent: '  ' }
const RAW: JsonStyle = { escapesHtml: false, indent: '' }

/** The result, or what to give when the function refuses. */
function orElse<T extends Value>(run: () => T, otherwise: (error: CallError) => T): T {
  try {
    return run()
  } catch (error) {
    if (error instanceof CallError) return otherwise(error)
    throw error
  }
}

const writes = (style: JsonStyle) => metered(['any'], (budget, value) => toJson(budget, value, style))
const writesOrEmpty = (style: JsonStyle) =>
  metered(['any'], (budget, value) =>
    orElse(
      () => toJson(budget, value, style),
      () => '',
    ),
  )

/** Sprig's decoders give the message of an error as their result. */
const decodes = (encoding: typeof BASE64) =>
  fn(['string'], (text) =>
    orElse(
      () => decodeBase(encoding, text),
      (error) => error.message,
    ),
  )

/** Hashing in JavaScript is slower than what other functions do with a text. */
const hashes = (hash: (bytes: string) => string) =>
  metered(['string'], (budget: Budget, text) => {
    budget.spend(text.length / 16)
    return hash(text)
  })

export const ENCODING_FUNCTIONS: Functions = {
  b64enc: fn(['string'], (bytes) => encodeBase(BASE64, bytes)),
  b64dec: decodes(BASE64),
  b32enc: fn(['string'], (bytes) => encodeBase(BASE32, bytes)),
  b32dec: decodes(BASE32),
  sha256sum: hashes(sha256),
  sha1sum: hashes(sha1),
  adler32sum: hashes((bytes) => String(adler32(bytes))),
  toJson: writesOrEmpty(PLAIN),
  mustToJson: writes(PLAIN),
  toPrettyJson: writesOrEmpty(PRETTY),
  mustToPrettyJson: writes(PRETTY),
  toRawJson: writesOrEmpty(RAW),
  mustToRawJson: writes(RAW),
  fromJson: fn(['string'], (text) =>
    orElse(
      () => fromJson(text),
      () => null,
    ),
  ),
  mustFromJson: fn(['string'], fromJson),
  toYaml: metered(['any'], (budget, value) =>
    orElse(
      () => toYaml(budget, value),
      () => '',
    ),
  ),
  fromYaml: metered(['string'], fromYaml),
}
