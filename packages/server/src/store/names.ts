import { sql } from 'kysely'

/** What people called an install, also after its name was given on. */
export const shownName = sql<string>`coalesce(install.former_name, install.name)`
