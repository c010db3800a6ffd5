import { readFile } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import {
  authorizeWith,
  createClosures,
  createFileStorage,
  createTokenIssuer,
  namedInAnnotation,
  startRegistryServer,
} from './index.ts'
import { createTokenEndpoint } from './token-endpoint.ts'

const USAGE = `Usage: registry --dir DIR --port PORT --key-file FILE [--host 127.0.0.1] [--sparse-indexes]
or TENON_REGISTRY_DIR, TENON_REGISTRY_PORT, TENON_REGISTRY_KEY_FILE, TENON_REGISTRY_HOST,
TENON_REGISTRY_SPARSE_INDEXES=1.
The key file holds at least 32 random bytes as base64url text. With sparse indexes an index may be pushed
although manifests that it names are absent.`

/** The annotation in which builds list the images that an artifact needs. */
const CLOSURE = 'dev.tenon.closure'

interface RegistryConfig {
  dir: string
  port: number
  host: string
  key: Uint8Array
  sparseIndexes: boolean
}

const readConfig = async (env: NodeJS.ProcessEnv): Promise<RegistryConfig> => {
  const text = { type: 'string' } as const
  const flag = { type: 'boolean' } as const
  const { values } = parseArgs({
    options: { dir: text, port: text, host: text, 'key-file': text, 'sparse-indexes': flag },
  })
  const dir = values.dir ?? env['TENON_REGISTRY_DIR']
  const port = Number(values.port ?? env['TENON_REGISTRY_PORT'])
  const keyFile = values['key-file'] ?? env['TENON_REGISTRY_KEY_FILE']
  if (!dir || !keyFile || !Number.isInteger(port) || port < 0 || port > 65_535) throw new Error(USAGE)
  const key = Buffer.from((await readFile(keyFile, 'utf8')).trim(), 'base64url')
  if (key.byteLength < 32) throw new Error(`The key in ${keyFile} is too short.\n${USAGE}`)
  const sparseIndexes = values['sparse-indexes'] ?? env['TENON_REGISTRY_SPARSE_INDEXES'] === '1'
  return { dir, port, host: values.host ?? env['TENON_REGISTRY_HOST'] ?? '127.0.0.1', key, sparseIndexes }
}

try {
  const { dir, port, host, key, sparseIndexes } = await readConfig(process.env)
  const issuer = createTokenIssuer(key)
  const storage = await createFileStorage(dir)
  const closures = createClosures({ storage, named: namedInAnnotation(CLOSURE), now: Date.now })
  const registry = await startRegistryServer({
    dir,
    storage,
    port,
    host,
    sparseIndexes,
    authorize: authorizeWith(issuer, Date.now, { closures }),
    beside: createTokenEndpoint({ key, issuer, now: Date.now }),
    log: ({ level, error, method, path }) => {
      if (level === 'error') console.error(`${method} ${path} failed:`, error)
    },
  })
  // Listening for the signal comes first: whoever reads the line may send it at once.
  const stopped = new Promise((resolve) => {
    process.once('SIGTERM', resolve)
    process.once('SIGINT', resolve)
  })
  process.stdout.write(`registry listens at ${registry.url}\n`)
  await stopped
  await registry.close()
} catch (error) {
  console.error(error instanceof Error ? error.message : String(error))
  process.exitCode = 1
}
