import { CliError } from '../errors.ts'
import { EXIT } from '../exit-codes.ts'

const MOST = 8 * 1024 * 1024

/** The data of server-sent events, as they arrive. */
export async function* readEvents(body: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let rest = ''
  let data: string[] = []
  for await (const bytes of body) {
    rest += decoder.decode(bytes, { stream: true })
    if (rest.length > MOST) throw new CliError(EXIT.internal, 'the server sent an event without an end')
    const lines = rest.split(/\r\n|\n|\r(?!$)/)
    rest = lines.pop() ?? ''
    for (const line of lines) {
      if (line === '') {
        if (data.length > 0) yield data.join('\n')
        data = []
      } else if (line.startsWith('data:')) {
        data.push(line.slice(line.startsWith('data: ') ? 6 : 5))
      }
    }
  }
}
