/** A shorter value is found in too much that is no secret: masking it would hide more than it protects. */
export const MIN_SECRET_BYTES = 4
/** A longer form is searched for in pieces of this size, so that what has to be held back stays short. */
export const MAX_FORM_BYTES = 256

/** The widths at which encoders break base64 into lines. */
const BASE64_WIDTHS = [64, 76]

/** Pure: every way in which a secret is likely to be printed, none shorter than 4 and none longer than 256 bytes. */
export function formsOf(value: string): Buffer[] {
  if (Buffer.byteLength(value) < MIN_SECRET_BYTES) return []
  const forms = new Set<string>()
  for (const text of [value, ...linesOf(value)]) {
    for (const form of [text, ...jsonForms(text), ...urlForms(text), ...base64Forms(text)]) forms.add(form)
  }
  return [...forms].flatMap((form) => inPieces(Buffer.from(form)))
}

/** Tools print a value of several lines with indentation or a prefix before each. */
function linesOf(value: string): string[] {
  if (!/[\r\n]/.test(value)) return []
  return value
    .split(/[\r\n]+/)
    .map((line) => line.trim())
    .filter((line) => Buffer.byteLength(line) >= MIN_SECRET_BYTES)
}

/** As JSON, once and twice; with the characters that Go escapes, and with those that are not ASCII. */
function jsonForms(text: string): string[] {
  const once = inner(text)
  const go = once.replaceAll(/[<>&\u2028\u2029]/g, escapeUnit)
  const ascii = once.replaceAll(/[\u0080-\uffff]/g, escapeUnit)
  return [once, inner(once), go, inner(go), ascii]
}

function inner(text: string): string {
  return JSON.stringify(text).slice(1, -1)
}

function escapeUnit(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
}

/** As part of a path and of a form; encoders differ in what they leave as it is, and in the case of their digits. */
function urlForms(text: string): string[] {
  const bytes = [...Buffer.from(text)]
  const encode = (kept: RegExp) =>
    bytes
      .map((byte) => {
        const character = String.fromCharCode(byte)
        return byte < 128 && kept.test(character) ? character : `%${hex(byte)}`
      })
      .join('')
  const strict = encode(/[A-Za-z0-9\-_.~]/)
  const forms = [
    strict,
    strict.replaceAll('%20', '+'),
    encode(/[A-Za-z0-9\-_.!~*'()]/),
    encode(/[A-Za-z0-9\-_.!~*'();,/?:@&=+$#]/),
  ]
  return forms.flatMap((form) => [form, form.replaceAll(/%[0-9A-F]{2}/g, (code) => code.toLowerCase())])
}

function hex(byte: number): string {
  return byte.toString(16).toUpperCase().padStart(2, '0')
}

/** In both alphabets, at each of the three places where it may begin within what is encoded. */
function base64Forms(text: string): string[] {
  const value = Buffer.from(text)
  const forms = [0, 1, 2].flatMap((lead) => base64At(value, lead))
  const whole = value.toString('base64')
  for (const width of BASE64_WIDTHS) {
    if (whole.length > width) forms.push(...(whole.match(new RegExp(`.{1,${width}}`, 'g')) ?? []))
  }
  return forms
    .flatMap((form) => [form, form.replaceAll('+', '-').replaceAll('/', '_')])
    .filter((form) => form.length >= MIN_SECRET_BYTES)
}

/** The characters that depend on the value alone, and those up to the end where nothing follows the value. */
function base64At(value: Buffer, lead: number): string[] {
  const encoded = Buffer.concat([Buffer.alloc(lead), value]).toString('base64')
  const start = Math.ceil((lead * 8) / 6)
  const certain = Math.floor(((lead + value.length) * 8) / 6)
  return [encoded.slice(start, certain), encoded.slice(start).replace(/=+$/, ''), encoded.slice(start)]
}

function inPieces(form: Buffer): Buffer[] {
  if (form.byteLength <= MAX_FORM_BYTES) return [form]
  const pieces: Buffer[] = []
  for (let from = 0; from + MAX_FORM_BYTES < form.byteLength; from += MAX_FORM_BYTES) {
    pieces.push(form.subarray(from, from + MAX_FORM_BYTES))
  }
  return [...pieces, form.subarray(-MAX_FORM_BYTES)]
}
