import { execFile, spawn } from 'node:child_process'
import { cp } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { promisify } from 'node:util'

const run = promisify(execFile)

export interface GitRepository {
  url: string
  /** Puts the files of a folder into a new commit on `main`; its id. */
  commit(folder: string): Promise<string>
  git(...args: string[]): Promise<string>
  close(): Promise<void>
}

/** The repository of a folder, over git's own HTTP protocol. */
export async function serveGit(folder: string): Promise<GitRepository> {
  const env = { PATH: process.env['PATH'], HOME: folder, GIT_CONFIG_NOSYSTEM: '1' }
  const author = ['-c', 'user.name=t', '-c', 'user.email=t@example.com', '-c', 'init.defaultBranch=main']
  const git = async (...args: string[]) =>
    (await run('git', [...author, ...args], { cwd: folder, env })).stdout.trim()
  await git('init', '--quiet')
  const server = createServer((request, response) => {
    const [path = '', query = ''] = (request.url ?? '').split('?')
    const backend = spawn('git', ['http-backend'], {
      env: {
        ...env,
        GIT_PROJECT_ROOT: folder,
        GIT_HTTP_EXPORT_ALL: '1',
        PATH_INFO: path.replace(/^\/repository\.git/, '/.git'),
        QUERY_STRING: query,
        REQUEST_METHOD: request.method,
        CONTENT_TYPE: request.headers['content-type'] ?? '',
        HTTP_CONTENT_ENCODING: request.headers['content-encoding'] ?? '',
        GIT_PROTOCOL: String(request.headers['git-protocol'] ?? ''),
      },
    })
    request.pipe(backend.stdin)
    const chunks: Buffer[] = []
    backend.stdout.on('data', (chunk: Buffer) => chunks.push(chunk))
    backend.on('close', () => {
      const all = Buffer.concat(chunks)
      const end = all.indexOf('\r\n\r\n')
      const lines = all.subarray(0, end).toString().split('\r\n')
      const headers = lines.map((line) => line.split(': ') as [string, string])
      const status = headers.find(([name]) => name === 'Status')?.[1]
      response.writeHead(
        status === undefined ? 200 : Number.parseInt(status, 10),
        Object.fromEntries(headers),
      )
      response.end(all.subarray(end + 4))
    })
  })
  const port = await listen(server)
  return {
    url: `http://127.0.0.1:${port}/repository.git`,
    git,
    commit: async (from) => {
      await cp(from, folder, { recursive: true, verbatimSymlinks: true })
      await git('add', '--all')
      await git('commit', '--quiet', '--allow-empty', '-m', 'more')
      return git('rev-parse', 'HEAD')
    },
    close: () => closeServer(server),
  }
}

/** On a free port of this machine. */
export async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
}

export function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve())
    server.closeAllConnections()
  })
}
