/** Stands where a template of the install will put something; fits into names, references and addresses alike. */
export const EXPRESSION = 'tenon-expression'

const CONTROL = String.raw`(?:if|else|end|range|with|define|block|template|break|continue)\b|/\*|\$\w*\s*:?=`
const CONTROL_LINE = new RegExp(String.raw`^[ \t]*(?:\{\{-?\s*(?:${CONTROL})[^}]*\}\}[ \t]*)+$`, 'gm')
const CONTROL_INLINE = new RegExp(String.raw`\{\{-?\s*(?:${CONTROL})(?:[^}]|\}(?!\}))*\}\}`, 'g')

/**
 * Takes the install's templates out of a text, so that what is left can be read as YAML: control words go, both
 * branches stay, and each expression becomes a word that can be told again.
 */
export function neutralise(text: string): string {
  if (!text.includes('{{')) return text
  return text
    .replaceAll(CONTROL_LINE, '')
    .replaceAll(CONTROL_INLINE, '')
    .replaceAll(/\{\{(?:[^}]|\}(?!\}))*\}\}/g, EXPRESSION)
}
