import { execFileSync, spawn } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { appWith, mistakesIn } from '../testing/app-folder.ts'
import { temporaryFolder } from '../testing/run-cli.ts'
import { parseGitValue } from './fetch-value.ts'
import { loadApp } from './load-app.ts'

const servers: Server[] = []
afterEach(async () => {
  for (const server of servers.splice(0)) await new Promise((resolve) => server.close(resolve))
})

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener)
  servers.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** A repository with one commit, as git itself serves it; its address and the commit. */
async function serveRepository(files: Record<string, string>): Promise<{ url: string; commit: string }> {
  const folder = await temporaryFolder()
  const env = { PATH: process.env['PATH'], HOME: folder, GIT_CONFIG_NOSYSTEM: '1' }
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@example.com', ...args], {
      cwd: folder,
      env,
    })
  git('init', '--quiet', '--initial-branch=main')
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(join(folder, name, '..'), { recursive: true })
    writeFileSync(join(folder, name), text)
  }
  git('add', '.')
  git('commit', '--quiet', '-m', 'one')
  const url = await serve((request, response) => {
    const [path = '', query = ''] = (request.url ?? '').split('?')
    const backend = spawn('git', ['http-backend'], {
      env: {
        ...env,
        GIT_PROJECT_ROOT: folder,
        GIT_HTTP_EXPORT_ALL: '1',
        PATH_INFO: path.replace(/^\/parts\.git/, '/.git'),
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
      const headers = Object.fromEntries(lines.map((line) => line.split(': ') as [string, string]))
      response.writeHead(Number.parseInt(headers['Status'] ?? '200', 10), headers)
      response.end(all.subarray(end + 4))
    })
  })
  return { url: `${url}/parts.git`, commit: git('rev-parse', 'HEAD').toString().trim() }
}

const chart = (rest: string) =>
  `name = "app"\ntype = "helm_chart"\nchart_name = "app"\n${rest}[public_repo]\nrepo = "acme/parts"\n`

describe('a value that lies elsewhere', () => {
  it('is fetched over HTTP, and the app keeps its content and its digest', async () => {
    const url = await serve((_request, response) => response.end('image: {{ .nuon.inputs.inputs.tag }}\n'))
    const values = `[[values_file]]\ncontents = "${url}/values.yaml"\n`
    const inputs = '[[input]]\nname = "tag"\n'
    const { app } = await loadApp(
      await appWith({ 'components/app.toml': chart(values), 'inputs.toml': inputs }),
    )
    const found = app.components.find(({ name }) => name === 'app')
    expect(found?.config['values_file']).toEqual([{ contents: 'image: {{ .nuon.inputs.inputs.tag }}\n' }])
    expect(app.carried?.['components/app.toml (fetched)']).toEqual({
      'values_file[0].contents': {
        from: `${url}/values.yaml`,
        pin: expect.stringMatching(/^sha256:[0-9a-f]{64}$/) as string,
      },
    })
  })

  it('is fetched from git at its ref, and the app keeps the commit', { timeout: 60_000 }, async () => {
    const { url, commit } = await serveRepository({ 'k8s/map.yaml': 'kind: ConfigMap\n' })
    const manifest = (ref: string) =>
      `name = "map"\ntype = "kubernetes_manifest"\nnamespace = "n"\nmanifest = "git::${url}//k8s/map.yaml?ref=${ref}"\n`
    const { app } = await loadApp(await appWith({ 'components/map.toml': manifest('main') }))
    expect(app.components.find(({ name }) => name === 'map')?.config['manifest']).toBe('kind: ConfigMap\n')
    expect(app.carried?.['components/map.toml (fetched)']).toMatchObject({
      manifest: { pin: `commit ${commit}` },
    })
    const [mistake] = await mistakesIn(await appWith({ 'components/map.toml': manifest('no-such') }))
    expect(mistake).toMatch(/^components\/map.toml:4:1: manifest cannot be had from git::.*no-such: /)
  })

  it('that is not there, too large or no text is a mistake at its place', async () => {
    const url = await serve((request, response) => {
      if (request.url === '/none') response.writeHead(404).end()
      else response.end(request.url === '/large' ? 'x'.repeat(2_000_000) : Buffer.of(0xff, 0xfe))
    })
    for (const [path, why] of [
      ['none', /cannot be had from .*: the answer is 404/],
      ['large', /cannot be had from .*: it is larger than 1 MB/],
      ['binary', /is not UTF-8 text/],
    ] as const) {
      const values = `[[values_file]]\ncontents = "${url}/${path}"\n`
      const mistakes = await mistakesIn(await appWith({ 'components/app.toml': chart(values) }))
      expect(mistakes).toEqual([expect.stringMatching(why)])
    }
  })

  it('takes only addresses of repositories that git may read from', () => {
    expect(parseGitValue('git::https://host/a/b.git//x/y.yaml?ref=v1')).toEqual({
      repo: 'https://host/a/b.git',
      path: 'x/y.yaml',
      ref: 'v1',
    })
    expect(parseGitValue('git@host:a/b.git//y.yaml')).toEqual({
      repo: 'git@host:a/b.git',
      path: 'y.yaml',
      ref: 'HEAD',
    })
    for (const wrong of [
      'git::file:///etc//passwd',
      'git::ext::sh//x',
      'git::https://host/a.git//../x',
      'git::https://host/a.git//x?ref=--upload-pack=x',
      'git::https://host/a.git',
    ])
      expect(parseGitValue(wrong)).toBeUndefined()
  })
})

it('a values file of the chart itself is left for the deploy, and one of the app’s folder is its content', async () => {
  const values = '[[values_file]]\npath = "values-prod.yaml"\n[[values_file]]\npath = "./own.yaml"\n'
  const { app } = await loadApp(await appWith({ 'components/app.toml': chart(values), 'own.yaml': 'a: 1\n' }))
  const found = app.components.find(({ name }) => name === 'app')
  expect(found?.config['values_file']).toEqual([{ path: 'values-prod.yaml' }, { contents: 'a: 1\n' }])
})
