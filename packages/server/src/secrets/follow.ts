import { sql } from 'kysely'
import type { InstallFollower } from '../ground/followers.ts'

export const secretsOfInstalls: InstallFollower = {
  deleted: (tx, installId) => tx.write(sql`delete from install_secret where install_id = ${installId}`),
}
