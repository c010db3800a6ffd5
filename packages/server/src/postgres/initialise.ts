import { spawn } from 'node:child_process'
import { closeSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { credentials } from './account.ts'
import { type Cluster, dataArgument, superuser } from './cluster.ts'
import { giveTo } from './data-folder.ts'
import { PostgresError } from './errors.ts'
import { openForInitdb } from './password.ts'

/** Makes the database under a draft name and renames it: a killed first start leaves nothing half made. */
export async function initialise(cluster: Cluster): Promise<void> {
  removeDrafts(cluster.siblings.draftPrefix)
  const draft = mkdtempSync(cluster.siblings.draftPrefix)
  giveTo(draft, cluster.account)
  await runInitdb(cluster, draft)
  try {
    renameSync(draft, cluster.dataDir)
  } catch (cause) {
    throw new PostgresError(
      'postgres_data_broken',
      `cannot put the new database at ${cluster.dataDir}; ` +
        'if that is a mount point, choose a folder inside it, otherwise remove it and start again',
      { cause },
    )
  }
}

/** An initdb whose supervisor was killed may still write into an old draft; it never gets the real name. */
function removeDrafts(prefix: string): void {
  const folder = dirname(prefix)
  for (const name of readdirSync(folder)) {
    if (!name.startsWith(basename(prefix))) continue
    rmSync(join(folder, name), { recursive: true, force: true, maxRetries: 10, retryDelay: 20 })
  }
}

async function runInitdb(cluster: Cluster, folder: string): Promise<void> {
  const { account, binaries, durable } = cluster
  const password = openForInitdb(cluster.siblings.password, cluster.password, account)
  const args = ['-D', dataArgument(folder, account), `--username=${superuser}`, '--pwfile=/dev/stdin']
  args.push('--encoding=UTF8', '--locale=C', '--auth=scram-sha-256', '--data-checksums')
  if (!durable) args.push('--no-sync')
  const child = spawn(binaries.initdb, args, {
    cwd: folder,
    env: { LC_ALL: 'C' },
    stdio: [password, 'pipe', 'pipe'],
    ...credentials(account),
  })
  closeSync(password)
  let output = ''
  const collect = (chunk: Buffer): void => {
    output = (output + chunk.toString()).slice(-4000)
  }
  child.stdout?.on('data', collect)
  child.stderr?.on('data', collect)
  const outcome = await new Promise<string | undefined>((settle) => {
    child.once('error', (error) => settle(error.message))
    child.once('close', (code, signal) => settle(code === 0 ? undefined : `ended with ${signal ?? code}`))
  })
  if (outcome === undefined) return
  throw new PostgresError(
    'postgres_start_failed',
    `initdb could not make the database at ${cluster.dataDir} (${outcome}): ${output.trim()}`,
  )
}
