import {
  anonymous,
  copyArtifact,
  createRegistryClient,
  createTransfers,
  parseDigest,
  parseManifest,
} from '@tenon/oci'
import type { CopyEnd } from '@tenon/oci'
import { readFile } from 'node:fs/promises'

/** One measured process of ours: `copy|pull FROM TO DIGEST TIMES [BEARER_FILE]`, an end being `url repository`. */
const [
  command,
  fromUrl = '',
  fromName = '',
  toUrl = '',
  toName = '',
  digestText = '',
  times = '1',
  bearerFile,
] = process.argv.slice(2)
const digest = parseDigest(digestText)
const bearer = bearerFile === undefined ? undefined : await readFile(bearerFile, 'utf8')

const end = (
  url: string,
  repository: string,
): CopyEnd & { client: ReturnType<typeof createRegistryClient> } => ({
  client: createRegistryClient({
    url,
    credentials: bearer === undefined ? anonymous : async () => ({ bearer }),
  }),
  repository,
})

const copy = async (index: number): Promise<void> => {
  const repository = times === '1' ? toName : `${toName}-${index}`
  await copyArtifact({
    from: end(fromUrl, fromName),
    to: end(toUrl, repository),
    digest,
    tag: 'bench',
    // Installs know nothing of each other.
    transfers: createTransfers(),
  })
}

const pull = async (): Promise<void> => {
  const { client, repository } = end(fromUrl, fromName)
  const fetched = await client.getManifest(repository, digest)
  const { layers } = parseManifest(fetched.mediaType, fetched.bytes)
  await Promise.all(
    layers.map(async (layer) => {
      const { stream } = await client.getBlob(repository, layer.digest, { size: layer.size })
      for await (const chunk of stream) void chunk
    }),
  )
}

const started = performance.now()
if (command === 'pull') for (let index = 0; index < Number(times); index++) await pull()
else if (command === 'copy-in-turn') for (let index = 0; index < Number(times); index++) await copy(index)
else await Promise.all(Array.from({ length: Number(times) }, (_, index) => copy(index)))
const ms = performance.now() - started
process.stdout.write(`${JSON.stringify({ ms, maxRssMb: process.resourceUsage().maxRSS / 1024 })}\n`)
