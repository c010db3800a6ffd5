/** Ends a stream that has sent nothing for a while: a connection that died without a word looks just like a quiet one. */
export async function* untilQuiet(
  body: AsyncIterable<Uint8Array>,
  quietMs: number,
  abort: AbortController,
): AsyncGenerator<Uint8Array> {
  let timer: NodeJS.Timeout | undefined
  const arm = () => {
    clearTimeout(timer)
    timer = setTimeout(() => abort.abort(new DOMException('nothing arrived', 'TimeoutError')), quietMs)
  }
  try {
    arm()
    for await (const bytes of body) {
      arm()
      yield bytes
    }
  } finally {
    clearTimeout(timer)
  }
}
