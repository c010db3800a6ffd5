import { readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { rootCertificates } from 'node:tls'

/** Each tool has its own name for the file of all authorities that it trusts. */
const BUNDLE_VARIABLES = [
  'SSL_CERT_FILE',
  'CURL_CA_BUNDLE',
  'GIT_SSL_CAINFO',
  'REQUESTS_CA_BUNDLE',
  'AWS_CA_BUNDLE',
]

/** Programs that a job starts trust what the agent's machine trusts: the usual authorities and those in `file`. */
export async function trustAuthorities(
  file: string | undefined,
  folder: string,
): Promise<Record<string, string>> {
  if (file === undefined || file === '') return {}
  const extra = resolve(file)
  const bundle = join(folder, 'all-authorities.pem')
  await writeFile(bundle, `${rootCertificates.join('\n')}\n${await readFile(extra, 'utf8')}`)
  return {
    NODE_EXTRA_CA_CERTS: extra,
    ...Object.fromEntries(BUNDLE_VARIABLES.map((name) => [name, bundle])),
  }
}
