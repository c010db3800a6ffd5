import type { Context } from '../context.ts'

/** Each by its newest value; the values themselves are nowhere here. */
export async function listSecrets(context: Context, installId: string) {
  const rows = await context.db
    .selectFrom('install_secret')
    .distinctOn('name')
    .select(['name', 'version', 'delivered_at', 'set_at', 'refusal'])
    .where('install_id', '=', installId)
    .orderBy('name')
    .orderBy('version', 'desc')
    .execute()
  return {
    items: rows.map((row) => ({
      name: row.name,
      version: row.version,
      delivered: row.delivered_at !== null,
      problem: row.delivered_at === null ? row.refusal : null,
      setAt: row.set_at,
    })),
    next: null,
  }
}
