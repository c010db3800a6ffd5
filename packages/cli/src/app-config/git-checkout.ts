import { readFile, realpath, stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'

/** The checkout that a folder lies in, with the repositories it comes from. */
export interface Checkout {
  folder: string
  /** As `host/owner/name`, in small letters. */
  remotes: string[]
}

export async function findCheckout(folder: string): Promise<Checkout | undefined> {
  for (let at = await realpath(folder); ; at = dirname(at)) {
    const git = join(at, '.git')
    const found = await stat(git).catch(() => undefined)
    if (found) {
      const config = await readFile(join(await gitFolder(git, found.isFile()), 'config'), 'utf8').catch(
        () => '',
      )
      const urls = [...config.matchAll(/^\s*url\s*=\s*(\S+)\s*$/gm)].map(([, url]) => repositoryName(url!))
      return { folder: at, remotes: urls }
    }
    if (dirname(at) === at) return undefined
  }
}

export function isCheckoutOf(checkout: Checkout | undefined, repo: string): boolean {
  return checkout?.remotes.includes(repositoryName(repo)) === true
}

/** One name for the many ways to write a repository; `owner/name` alone is GitHub's. */
function repositoryName(repo: string): string {
  const bare = repo.replace(/\/+$/, '').replace(/\.git$/, '')
  const short = /^[\w.-]+\/[\w.-]+$/.test(bare) ? `github.com/${bare}` : bare
  return short
    .replace(/^[a-z+]+:\/\//i, '')
    .replace(/^[^@/]+@/, '')
    .replace(/^([^/:]+):(?:\d+\/)?/, '$1/')
    .toLowerCase()
}

/** In a worktree or submodule `.git` is a file that names the folder; what worktrees share lies in the common one. */
async function gitFolder(git: string, isFile: boolean): Promise<string> {
  if (!isFile) return git
  const named = /^gitdir:\s*(.+?)\s*$/m.exec(await readFile(git, 'utf8').catch(() => ''))?.[1]
  if (named === undefined) return git
  const own = resolve(dirname(git), named)
  const common = await readFile(join(own, 'commondir'), 'utf8').catch(() => undefined)
  return common === undefined ? own : resolve(own, common.trim())
}
