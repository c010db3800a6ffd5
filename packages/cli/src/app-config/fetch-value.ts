import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { sha256 } from '../crypto.ts'
import { MOST_BYTES } from './toml-file.ts'

const run = promisify(execFile)
const PATIENCE_MS = 30_000

/** A value that lies elsewhere, as it is now; `pin` names exactly that: a commit, or the digest of its bytes. */
export type Fetched = { ok: true; bytes: Uint8Array; pin: string } | { ok: false; why: string }

export function isRemote(value: string): boolean {
  return /^(?:https?:\/\/|git(?:::|@|\+))/.test(value)
}

/** Fetched where the app is made, so that an install needs nothing from outside and every version stays what it is. */
export async function fetchValue(value: string): Promise<Fetched> {
  try {
    return await (/^https?:/.test(value) ? fetchHttp(value) : fetchGit(value))
  } catch (error) {
    const { message, cause, stderr } = error as Error & { stderr?: Buffer }
    const said =
      stderr?.toString().trim().split('\n').at(-1) || (cause instanceof Error ? cause.message : message)
    return { ok: false, why: said }
  }
}

async function fetchHttp(address: string): Promise<Fetched> {
  const url = new URL(address)
  if (url.username !== '' || url.password !== '') return { ok: false, why: 'an address may hold no password' }
  const answer = await fetch(url, { signal: AbortSignal.timeout(PATIENCE_MS) })
  if (!answer.ok) return { ok: false, why: `the answer is ${answer.status}` }
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of answer.body ?? []) {
    size += (chunk as Uint8Array).byteLength
    if (size > MOST_BYTES) return tooLarge
    chunks.push(chunk as Uint8Array)
  }
  const bytes = Buffer.concat(chunks)
  return { ok: true, bytes, pin: `sha256:${sha256(bytes)}` }
}

const tooLarge: Fetched = { ok: false, why: 'it is larger than 1 MB' }

/** Pure: `git::https://host/repo.git//path/to/file?ref=v1`, `git+https://…` or `git@host:owner/repo.git//file`. */
export function parseGitValue(value: string): { repo: string; path: string; ref: string } | undefined {
  const [address = '', query = ''] = value.replace(/^git(?:::|\+)/, '').split('?')
  const at = address.indexOf('//', address.includes('://') ? address.indexOf('://') + 3 : 0)
  if (at < 0) return undefined
  const repo = address.slice(0, at)
  const path = address.slice(at + 2)
  const ref = new URLSearchParams(query).get('ref') ?? 'HEAD'
  const isRepo = /^(?:https?|ssh):\/\/[^\s-]\S*$/.test(repo) || /^[\w.-]+@[\w.-]+:[^\s-]\S*$/.test(repo)
  const isPath = path !== '' && !path.startsWith('/') && !path.split('/').includes('..')
  const isRef = /^[A-Za-z0-9_][A-Za-z0-9_./+@-]*$/.test(ref) && !ref.includes('..')
  return isRepo && isPath && isRef ? { repo, path, ref } : undefined
}

/** Its environment stays as it is, but for what would have it ask somebody or speak otherwise. */
const GIT = 'export GIT_TERMINAL_PROMPT=0 LC_ALL=C; exec git "$@"'

/** By this machine's git, with the access that whoever runs it has; it asks nobody and runs no hooks. */
async function fetchGit(value: string): Promise<Fetched> {
  const named = parseGitValue(value)
  if (!named) return { ok: false, why: 'it is not of the form git::https://HOST/REPO.git//FILE?ref=REF' }
  const folder = await mkdtemp(join(tmpdir(), 'tenon-value-'))
  const settings = ['core.hooksPath=/dev/null', 'protocol.allow=never', 'submodule.recurse=false']
  const allowed = ['https', 'http', 'ssh'].map((kind) => `protocol.${kind}.allow=always`)
  const git = async (...args: string[]) => {
    const all = [...settings, ...allowed].flatMap((setting) => ['-c', setting])
    const options = {
      cwd: folder,
      encoding: 'buffer',
      timeout: PATIENCE_MS,
      maxBuffer: 2 * MOST_BYTES,
    } as const
    return (await run('/bin/sh', ['-c', GIT, 'git', ...all, ...args], options)).stdout
  }
  try {
    await git('init', '--quiet', '--template=')
    await git('fetch', '--quiet', '--depth=1', '--no-tags', '--', named.repo, named.ref)
    const commit = (await git('rev-parse', '--verify', 'FETCH_HEAD^{commit}')).toString().trim()
    const bytes = await git('show', `${commit}:${named.path}`)
    return bytes.byteLength > MOST_BYTES ? tooLarge : { ok: true, bytes, pin: `commit ${commit}` }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
