import type { Migration } from '../migrate.ts'
import { initial } from './0001-initial.ts'

/** In order, and never changed once released: the database remembers the checksum of each. */
export const migrations: Migration[] = [{ name: '0001-initial', sql: initial }]
