import { readFile } from 'node:fs/promises'
import { copyArtifact, createRegistryClient, createUploadSessions, parseDigest } from '../index.ts'

/** A process of its own that copies one artifact, so that a test can kill it in the middle. */
const [from = '', to = '', digest = '', sessions = '', bearerFile = ''] = process.argv.slice(2)
const bearer = await readFile(bearerFile, 'utf8')

const end = (url: string) => ({
  client: createRegistryClient({ url, credentials: async () => ({ bearer }) }),
  repository: 'apps/a',
})
let told = 0
const result = await copyArtifact({
  from: end(from),
  to: end(to),
  digest: parseDigest(digest),
  sessions: createUploadSessions(sessions),
  onProgress: ({ doneBytes }) => {
    if (doneBytes - told < 64 * 1024) return
    told = doneBytes
    process.stdout.write(`done ${doneBytes}\n`)
  },
})
process.stdout.write(`copied ${result.transferredBytes}\n`)
