import { createServer } from 'node:http'

const VERSION = '1.0.0'
const GREETINGS = ['Hello', 'Hallo', 'Bonjour', 'Hola', 'Ciao', 'Olá', 'Hej']

let asked = 0

const server = createServer((request, response) => {
  const path = (request.url ?? '/').split('?', 1)[0]
  if (path === '/healthz') return answer(response, 200, { status: 'ok' })
  if (path !== '/') return answer(response, 404, { error: 'not found' })
  const greeting = GREETINGS[asked % GREETINGS.length]
  asked += 1
  answer(response, 200, { greeting, version: VERSION, asked })
})

server.listen(Number(process.env.PORT), '127.0.0.1', () => {
  console.log(`greeter ${VERSION} listens on port ${process.env.PORT}`)
})

process.on('SIGTERM', () => {
  server.close()
  server.closeAllConnections()
})

function answer(response, status, value) {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(JSON.stringify(value))
}
