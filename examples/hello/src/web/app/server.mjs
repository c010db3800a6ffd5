import { createServer } from 'node:http'
import { page } from './page.mjs'

const VERSION = '1.0.0'
const { PORT, GREETER_URL, TENON_INSTALL_ID = 'unknown', TENON_UNIT_VERSION = 'unknown' } = process.env
const startedAt = new Date()

const server = createServer((request, response) => {
  const path = (request.url ?? '/').split('?', 1)[0]
  if (path === '/healthz') return send(response, 200, 'application/json', '{"status":"ok"}')
  if (path !== '/') return send(response, 404, 'text/plain; charset=utf-8', 'not found\n')
  showPage(response).catch((error) => {
    console.error(error)
    send(response, 500, 'text/plain; charset=utf-8', 'The page could not be made.\n')
  })
})

server.listen(Number(PORT), '127.0.0.1', () => {
  console.log(`web ${VERSION} listens on port ${PORT}, asks the greeter at ${GREETER_URL}`)
})

process.on('SIGTERM', () => {
  server.close()
  server.closeAllConnections()
})

async function showPage(response) {
  const greeter = await askGreeter()
  const html = page({
    greeter,
    install: TENON_INSTALL_ID,
    version: VERSION,
    fingerprint: TENON_UNIT_VERSION,
    startedAt,
  })
  send(response, 200, 'text/html; charset=utf-8', html)
}

/** The page is worth showing without the greeter too: it then says what is wrong. */
async function askGreeter() {
  const asked = performance.now()
  try {
    const response = await fetch(GREETER_URL, { signal: AbortSignal.timeout(2000) })
    if (!response.ok) throw new Error(`status ${response.status}`)
    const { greeting, version } = await response.json()
    return { answered: true, greeting, version, milliseconds: Math.round(performance.now() - asked) }
  } catch (error) {
    return { answered: false, reason: error.cause?.message ?? error.message }
  }
}

function send(response, status, type, body) {
  response.writeHead(status, {
    'content-type': type,
    'cache-control': 'no-store',
    'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'",
    'x-content-type-options': 'nosniff',
  })
  response.end(body)
}
