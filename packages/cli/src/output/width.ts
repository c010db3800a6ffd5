/* oxlint-disable-next-line no-control-regex -- colours take no columns */
const COLOURS = /\u001B\[[0-9;]*m/g
const ZERO_WIDTH = /^[\p{Mn}\p{Me}\p{Cf}]+$/u
const WIDE =
  /^[\u1100-\u115F\u2E80-\u303E\u3041-\u33FF\u3400-\u4DBF\u4E00-\u9FFF\uA000-\uA4CF\uAC00-\uD7A3\uF900-\uFAFF\uFE30-\uFE6F\uFF00-\uFF60\uFFE0-\uFFE6]|\p{Emoji_Presentation}/u
const graphemes = new Intl.Segmenter()

/** How many columns a text takes on a terminal. */
export function textWidth(text: string): number {
  const bare = text.replace(COLOURS, '')
  if (ASCII.test(bare)) return bare.length
  let width = 0
  for (const { segment } of graphemes.segment(bare)) width += graphemeWidth(segment)
  return width
}

const ASCII = /^[ -~]*$/

function graphemeWidth(segment: string): number {
  if (ZERO_WIDTH.test(segment)) return 0
  return WIDE.test(segment) ? 2 : 1
}

export function padTo(text: string, width: number): string {
  return text + ' '.repeat(Math.max(0, width - textWidth(text)))
}

/** At most `width` columns of an uncoloured text; what is cut shows as an ellipsis. */
export function clipTo(text: string, width: number): string {
  if (textWidth(text) <= width) return text
  if (width <= 0) return ''
  let kept = ''
  let used = 0
  for (const { segment } of graphemes.segment(text)) {
    const next = used + graphemeWidth(segment)
    if (next > width - 1) break
    kept += segment
    used = next
  }
  return `${kept}…`
}
