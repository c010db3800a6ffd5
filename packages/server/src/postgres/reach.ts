import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { databaseUrl } from './cluster.ts'
import { siblingsOf } from './data-folder.ts'
import { startEmbeddedPostgres, type EmbeddedPostgresOptions } from './embedded-postgres.ts'
import { PostgresError } from './errors.ts'
import { readPassword } from './password.ts'
import { readPidFile } from './pid-file.ts'

/** The PostgreSQL of a data folder that has one: brought up for now, or that of the server which runs on it. */
export async function reachEmbeddedPostgres(
  options: EmbeddedPostgresOptions,
): Promise<{ url: string; stop(): Promise<void> }> {
  const { dataDir } = options
  if (!existsSync(join(dataDir, 'PG_VERSION')))
    throw new PostgresError(
      'postgres_data_broken',
      `there is no database in ${dataDir}; name the server's data folder with TENON_DATA_DIR, or its database with DATABASE_URL`,
    )
  try {
    return await startEmbeddedPostgres(options)
  } catch (error) {
    if (!(error instanceof PostgresError) || error.code !== 'postgres_data_in_use') throw error
    const port = readPidFile(dataDir)?.port
    if (port === undefined) throw error
    const password = readPassword(siblingsOf(dataDir).password)
    return { url: databaseUrl(password, port), stop: async () => undefined }
  }
}
