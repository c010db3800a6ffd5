/** Text of others on one line of a terminal: no control characters, no reordering of what is read. */
export function plain(text: string): string {
  return text.replace(ESCAPES, '').replace(LINE_BREAKS, ' ').replace(DANGEROUS, '').replaceAll(MARK, '')
}

/** Stands for the escape character of a colour while the others are removed. */
const MARK = '\u0001'

/**
 * Bytes of a log for a terminal: colours stay, every other control sequence goes, since it could rename the
 * window, answer as if typed, or hide lines. Keeps an unfinished sequence until its rest arrives.
 */
export function createLogFilter(): { push(bytes: Uint8Array): string; end(): string } {
  const decoder = new TextDecoder()
  let rest = ''
  let coloured = false
  const filter = (text: string, last: boolean): string => {
    const whole = rest + text.replaceAll(MARK, '')
    const cut = last ? whole.length : startOfUnfinished(whole)
    rest = whole.slice(cut)
    return whole
      .slice(0, cut)
      .replace(/\r+\n?/g, '\n')
      .replace(ESCAPES, (sequence) => {
        if (!COLOUR.test(sequence)) return ''
        coloured = true
        return MARK + sequence.slice(1)
      })
      .replace(DANGEROUS, '')
      .replaceAll(MARK, '\u001B')
  }
  return {
    push: (bytes) => filter(decoder.decode(bytes, { stream: true }), false),
    end: () => filter(decoder.decode(), true) + (coloured ? '\u001B[0m' : ''),
  }
}

/** An escape sequence longer than this is no sequence, so it need not be waited for. */
const LONGEST_SEQUENCE = 4096

function startOfUnfinished(text: string): number {
  const from = Math.max(0, text.length - LONGEST_SEQUENCE)
  for (let at = text.indexOf('\u001B', from); at >= 0; at = text.indexOf('\u001B', at + 1)) {
    if (UNFINISHED.test(text.slice(at))) return at
  }
  let end = text.length
  while (end > from && text[end - 1] === '\r') end--
  return end > from || from === 0 ? end : text.length
}

/* oxlint-disable no-control-regex -- control characters are the subject here */
// CSI, then the string sequences (OSC, DCS, SOS, PM, APC) up to their terminator, then two-character ones.
const ESCAPES =
  /\u001B\[[0-?]*[ -/]*[@-~]|\u001B[\]PX^_][^\u0007\u001B\u009C]*(?:\u0007|\u001B\\|\u009C)|\u001B[ -/]*[0-OQ-WYZ\\`-~]/g
const UNFINISHED = /^\u001B(?:\[[0-?]*[ -/]*|[\]PX^_][^\u0007\u001B\u009C]*\u001B?|[ -/]*)?$/
const COLOUR = /^\u001B\[[0-9;:]*m$/
const LINE_BREAKS = /[\r\n\t\u2028\u2029]+/g
/** What is left of the control characters but for MARK, and the marks that reorder text. */
const DANGEROUS = /[\u0000\u0002-\u0008\u000B-\u001F\u007F-\u009F\u202A-\u202E\u2066-\u2069]/g
/* oxlint-enable no-control-regex */
