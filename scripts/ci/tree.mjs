import { execFileSync } from 'node:child_process'

/**
 * The hash of what was tried, uncommitted changes included; in a clean clone that of its commit's tree.
 * @param {string} root
 * @param {string} index a file of its own, so that what is staged there stays as it is
 */
export function treeOf(root, index) {
  const git = (...args) =>
    execFileSync('git', args, { cwd: root, encoding: 'utf8', env: { ...process.env, GIT_INDEX_FILE: index } })
  git('read-tree', 'HEAD')
  git('add', '--all')
  return git('write-tree').trim()
}
