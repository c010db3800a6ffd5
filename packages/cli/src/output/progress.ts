import type { Io } from '../io.ts'

const FIRST_MS = 1000
const FRAME_MS = 120
/** Without a terminal there is a new line this often. */
const LINE_MS = 5000
const FRAMES = ['-', '\\', '|', '/']

/** Says on stderr what is being waited for, once it takes longer than a second, and that it goes on. */
export async function withProgress<T>(
  io: Pick<Io, 'stderr'>,
  message: () => string,
  work: Promise<T>,
): Promise<T> {
  const { stderr } = io
  let frame = 0
  let shown = false
  let ticker: NodeJS.Timeout | undefined
  const draw = () => {
    if (stderr.isTTY) stderr.write(`\r\u001B[K${FRAMES[frame++ % FRAMES.length]} ${message()}`)
    else stderr.write(`${message()}\n`)
    shown = true
  }
  const first = setTimeout(() => {
    draw()
    ticker = setInterval(draw, stderr.isTTY ? FRAME_MS : LINE_MS)
  }, FIRST_MS)
  try {
    return await work
  } finally {
    clearTimeout(first)
    clearInterval(ticker)
    if (shown && stderr.isTTY) stderr.write('\r\u001B[K')
  }
}
