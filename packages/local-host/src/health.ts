import { get } from 'node:http'

/** The reason the probe failed, or undefined when it passed. Only 2xx and 3xx are health. */
export function probeHttp(target: {
  port: number
  path: string
  timeoutMs: number
}): Promise<string | undefined> {
  const { port, path, timeoutMs } = target
  return new Promise((resolve) => {
    const where = `GET http://127.0.0.1:${port}${path}`
    const request = get({ host: '127.0.0.1', port, path, agent: false })
    const deadline = setTimeout(() => {
      resolve(`${where}: no answer within ${timeoutMs} ms`)
      request.destroy()
    }, timeoutMs)
    request.on('error', (error) => {
      clearTimeout(deadline)
      resolve(`${where}: ${error.message}`)
    })
    request.on('response', (response) => {
      clearTimeout(deadline)
      const status = response.statusCode ?? 0
      resolve(status >= 200 && status < 400 ? undefined : `${where}: status ${status}`)
      response.destroy()
    })
  })
}
