import { checkBundle, SERVER_CHAIN } from '@tenon/core'
import { packFolder, type Digest } from '@tenon/oci'
import { folderTitle, MEDIA_TYPES, pluginDescription, PRODUCT_VERSION } from '@tenon/protocol'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Context } from '../context.ts'
import { verify } from '../crypto.ts'
import { transact } from '../store/transaction.ts'
import { signBundles } from './attest-artifact.ts'
import { readBundle } from './describe-artifact.ts'

const MAX_PLUGIN_BYTES = 67_108_864

/** The plugins that come with this server go into the vendor registry by digest, signed, like everything that jobs run. */
export async function publishPlugins(context: Context): Promise<void> {
  const names = await readdir(context.config.pluginsDir).catch(() => [])
  for (const name of names.filter((n) => /^[a-z0-9_-]+$/.test(n))) {
    const folder = join(context.config.pluginsDir, name)
    const { operations } = pluginDescription.parse(
      JSON.parse(await readFile(join(folder, 'plugin.json'), 'utf8')),
    )
    const bytes = await packFolder(folder)
    const repository = `tenon/plugins/${name}`
    const { digest } = await context.registry.storeLayer(
      repository,
      MEDIA_TYPES.plugin,
      MEDIA_TYPES.pluginLayer,
      once(bytes),
      MAX_PLUGIN_BYTES,
      folderTitle(MEDIA_TYPES.plugin),
    )
    const isSigned = await hasSignature(context, repository, digest)
    if (!isSigned) await storeSignature(context, name, repository, digest)
    await record(context, { name, repository, digest, version: PRODUCT_VERSION, operations }, isSigned)
  }
}

async function record(
  context: Context,
  row: { name: string; repository: string; digest: Digest; version: string; operations: string[] },
  wasSigned: boolean,
): Promise<void> {
  const { name, repository, digest } = row
  const fact = { actor: { type: 'server' as const, id: context.serverId }, outcome: 'ok' as const }
  await transact(context, async (tx) => {
    if (!wasSigned)
      tx.audit(SERVER_CHAIN, {
        ...fact,
        action: 'artifact.signed',
        subject: { type: 'artifact', id: `${repository}@${digest}` },
        manifestDigest: null,
        details: { plugin: name, keyId: context.keys.current().keyId },
      })
    const known = await tx.db
      .selectFrom('plugin')
      .select('digest')
      .where('name', '=', name)
      .executeTakeFirst()
    if (known?.digest === digest) return
    await tx.db
      .insertInto('plugin')
      .values(row)
      .onConflict((c) => c.column('name').doUpdateSet(row))
      .execute()
    tx.audit(SERVER_CHAIN, {
      ...fact,
      action: 'plugin.published',
      subject: { type: 'plugin', id: name },
      manifestDigest: null,
      details: { digest },
    })
  })
}

/** Only the current key's counts: whoever enrols now trusts no older one. */
async function hasSignature(context: Context, repository: string, digest: Digest): Promise<boolean> {
  const { storage } = context.registry
  const { keyId, key } = context.keys.current()
  const keys = new Map([[keyId, key.publicKey]])
  for (const referrer of await storage.listReferrers(repository, digest)) {
    if (referrer.artifactType !== MEDIA_TYPES.bundle) continue
    const text = await readBundle(storage, repository, referrer.digest)
    if (text !== undefined && checkBundle(text, digest, keys, verify).ok) return true
  }
  return false
}

/** Says nothing of the time, so that two processes that start at once store the same. */
async function storeSignature(
  context: Context,
  name: string,
  repository: string,
  digest: Digest,
): Promise<void> {
  const { storage } = context.registry
  const found = await storage.getManifest(repository, digest)
  if (!found) return
  const bundles = signBundles(
    context,
    { repository, digest },
    {
      serverId: context.serverId,
      buildType: 'plugin',
      external: { plugin: name, version: PRODUCT_VERSION },
      internal: {},
      materials: [],
      invocationId: `publish:${name}`,
    },
  )
  const subject = { mediaType: found.mediaType, digest, size: found.bytes.byteLength }
  for (const bundle of bundles) await context.registry.storeBundle(repository, subject, bundle)
}

async function* once(bytes: Uint8Array) {
  yield bytes
}
