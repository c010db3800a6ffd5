import type { Digest, Storage } from '@tenon/oci'
import { sql } from 'kysely'
import type { Db } from '../store/database.ts'

type Tags = Pick<Storage, 'resolveTag' | 'listTags'>

/** Such a tag of an artifact is the server's to say, whatever somebody pushed under it. */
const OF_BUILD = /^v(\d{1,9})$/
const APP_OF = /^apps\/([^/]+)\/./
const PLUGINS = 'tenon/plugins/'

/**
 * Tags as a view of what is recorded: `v7` is the newest artifact that was built of version 7 of its app, and a plugin has
 * its version. Nothing of ours runs by a tag; they are for people and their tools.
 */
export function withVersionTags(storage: Tags, db: Db): Tags {
  return {
    async resolveTag(repository, tag) {
      const app = APP_OF.exec(repository)?.[1]
      const number = OF_BUILD.exec(tag)?.[1]
      if (app !== undefined && number !== undefined) return digestOfBuild(db, app, repository, Number(number))
      const plugin = await pluginTag(db, repository)
      return plugin?.tag === tag ? plugin.digest : storage.resolveTag(repository, tag)
    },
    async listTags(repository) {
      const stored = await storage.listTags(repository)
      if (stored === undefined) return undefined
      const app = APP_OF.exec(repository)?.[1]
      const plugin = await pluginTag(db, repository)
      const own = app === undefined ? stored : stored.filter((tag) => !OF_BUILD.test(tag))
      const built = app === undefined ? [] : await tagsOfBuilds(db, app, repository)
      return [...new Set([...own, ...built, ...(plugin ? [plugin.tag] : [])])].toSorted()
    },
  }
}

async function digestOfBuild(
  db: Db,
  app: string,
  repository: string,
  number: number,
): Promise<Digest | undefined> {
  const { rows } = await sql<{ digest: Digest }>`
    select build.artifact_digest as digest from build
    join app_version on app_version.id = build.app_version_id and app_version.number = ${number}
    where build.app_id = (select id from app where name = ${app}) and build.status = 'succeeded'
      and build.artifact_repository = ${repository} and build.artifact_digest is not null
    order by build.id desc limit 1`.execute(db)
  return rows[0]?.digest
}

async function tagsOfBuilds(db: Db, app: string, repository: string): Promise<string[]> {
  const { rows } = await sql<{ number: number }>`
    select distinct app_version.number from build
    join app_version on app_version.id = build.app_version_id
    where build.app_id = (select id from app where name = ${app}) and build.status = 'succeeded'
      and build.artifact_repository = ${repository} and build.artifact_digest is not null`.execute(db)
  return rows.map(({ number }) => `v${number}`)
}

async function pluginTag(db: Db, repository: string): Promise<{ tag: string; digest: Digest } | undefined> {
  if (!repository.startsWith(PLUGINS)) return undefined
  const { rows } = await sql<{ tag: string; digest: Digest }>`
    select version as tag, digest from plugin where repository = ${repository}`.execute(db)
  return rows[0]
}
