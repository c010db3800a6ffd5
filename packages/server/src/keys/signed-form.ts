import type { Db } from '../store/database.ts'

/** Whether everything was signed by this key, in this form or a later one. */
export async function hasSignedAll(db: Db, keyId: string, form: number): Promise<boolean> {
  const row = await db
    .selectFrom('server_key')
    .select('id')
    .where('id', '=', keyId)
    .where('signed_form', '>=', form)
    .executeTakeFirst()
  return row !== undefined
}

export async function noteSignedAll(db: Db, keyId: string, form: number): Promise<void> {
  await db.updateTable('server_key').set({ signed_form: form }).where('id', '=', keyId).execute()
}
