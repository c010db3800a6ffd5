import { PluginError } from '../sdk/errors.ts'
import type { OperationContext } from '../sdk/plugin.ts'
import type { GitSource } from './config.ts'
import { lentFile } from './lent.ts'
import { endOf, findTool, runTool, toolMissing, type ToolEnd } from './run-tool.ts'

const FETCH_MS = 10 * 60_000

/** The repository at its ref, in `folder`, without history; says which commit that is. */
export async function cloneRepository(
  context: OperationContext,
  source: GitSource,
  folder: string,
): Promise<{ url: string; commit: string }> {
  const url = repositoryUrl(source.repo)
  const shown = withoutCredentials(url)
  const ref = checkedRef(source.ref)
  const program = await findTool(context, 'git')
  if (program === undefined) throw toolMissing('A source in a git repository', 'git')
  const settings = gitSettings(folder, await lentFile(context, 'git-credentials'))
  const hide = (line: string) => line.replaceAll(url, shown)
  const git = (...args: string[]) => ({ program, args: [...settings, ...args], cwd: folder, env: ENV, hide })
  context.log(`fetching ${shown} at ${ref}`)
  await runTool(context, git('init', '--quiet', '--template='))
  const fetch = ['fetch', '--quiet', '--no-tags', '--no-recurse-submodules', '--no-write-commit-graph']
  const shallow = await endOf(context, { ...git(...fetch, '--depth=1', '--', url, ref), timeoutMs: FETCH_MS })
  let wanted = 'FETCH_HEAD'
  if (shallow.code !== 0) {
    if (!/^[0-9a-f]{7,40}$/.test(ref)) throw notFetched(shown, ref, shallow)
    // A server need not give a commit by its name alone: then all branches come, and the commit is among them.
    const all = ['--', url, '+refs/heads/*:refs/heads/*', '+refs/tags/*:refs/tags/*']
    const whole = await endOf(context, { ...git(...fetch, ...all), timeoutMs: FETCH_MS })
    if (whole.code !== 0) throw notFetched(shown, ref, whole)
    wanted = ref
  }
  const found = await endOf(
    context,
    git('rev-parse', '--verify', '--quiet', '--end-of-options', `${wanted}^{commit}`),
  )
  const commit = found.stdout.trim()
  if (found.code !== 0 || !/^[0-9a-f]{40,64}$/.test(commit)) throw notFetched(shown, ref, shallow)
  await runTool(context, git('checkout', '--quiet', '--force', '--detach', commit))
  context.log(`the source is ${shown} at commit ${commit}`)
  return { url: shown, commit }
}

/** Nothing of the machine's own git settings counts, and git asks nobody. */
const ENV = {
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_TERMINAL_PROMPT: '0',
  GIT_ASKPASS: 'true',
  SSH_ASKPASS: 'true',
  GIT_SSH_COMMAND: 'ssh -oBatchMode=yes',
  GIT_LFS_SKIP_SMUDGE: '1',
  LC_ALL: 'C',
}

function gitSettings(folder: string, credentials: string | undefined): string[] {
  const settings = [
    'core.hooksPath=/dev/null',
    'core.fsmonitor=false',
    'core.autocrlf=false',
    'submodule.recurse=false',
    'protocol.allow=never',
    'protocol.https.allow=always',
    'protocol.http.allow=always',
    'protocol.ssh.allow=always',
    'http.lowSpeedLimit=1000',
    'http.lowSpeedTime=60',
    `safe.directory=${folder}`,
    'credential.helper=',
    ...(credentials === undefined ? [] : [`credential.helper=store --file '${credentials}'`]),
  ]
  return settings.flatMap((setting) => ['-c', setting])
}

/** Pure: `owner/name` is GitHub's; anything else is an address of a kind that git may use here. */
export function repositoryUrl(repo: string): string {
  if (/^[A-Za-z0-9_.-]+\/[A-Za-z0-9_.-]+$/.test(repo) && !repo.startsWith('-') && !repo.startsWith('.')) {
    return `https://github.com/${repo.replace(/\.git$/, '')}.git`
  }
  if (/^(https?|ssh):\/\/[^\s-][^\s]*$/.test(repo) || /^[\w.-]+@[\w.]+[\w.-]*:[^\s-][^\s]*$/.test(repo))
    return repo
  const remedy = 'Write owner/name, or an address with https, ssh or http.'
  throw new PluginError('config_invalid', `${JSON.stringify(repo)} is no git repository.`, remedy)
}

function checkedRef(ref: string): string {
  if (ref === '') return 'HEAD'
  if (/^[A-Za-z0-9_][A-Za-z0-9_./+@-]*$/.test(ref) && !ref.includes('..')) return ref
  const message = `${JSON.stringify(ref)} is no branch, tag or commit.`
  throw new PluginError('config_invalid', message, 'Correct the ref of the component.')
}

function withoutCredentials(url: string): string {
  return url.replace(/^(\w+:\/\/)[^/@]*@/, '$1')
}

function notFetched(url: string, ref: string, end: ToolEnd): PluginError {
  const isUnknown = /couldn't find remote ref|not our ref|unadvertised object|^$/.test(end.complaint)
  if (isUnknown) {
    const message = `The repository ${url} has no ${JSON.stringify(ref)}.`
    return new PluginError(
      'source_unreachable',
      message,
      'Correct the branch, tag or commit of the component.',
    )
  }
  const remedy =
    'Check the address, and that the build agent may read it: lend it a git-credentials file if not.'
  return new PluginError(
    'source_unreachable',
    `The repository ${url} cannot be read: ${end.complaint}.`,
    remedy,
  )
}
