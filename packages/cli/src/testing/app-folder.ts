import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { inspectApp } from '../app-config/load-app.ts'
import { formatProblem } from '../app-config/problem.ts'
import { temporaryFolder } from './run-cli.ts'

/** A folder with these files, gone after the test. */
export async function folderWith(files: Record<string, string | Uint8Array>): Promise<string> {
  const folder = await temporaryFolder()
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, path)), { recursive: true })
    await writeFile(join(folder, path), text)
  }
  return folder
}

export const METADATA = 'version = "v2"\ndisplay_name = "Shop"\ndescription = "A shop"\n'

export const repoTable = (name: string): string =>
  `[${name}]\nrepo = "acme/parts"\ndirectory = "a/b"\nbranch = "v1"\n`

/** What a component of the type script needs. */
export const scripts = (folder: string): Record<string, string> => ({
  [`${folder}/deploy.sh`]: '',
  [`${folder}/destroy.sh`]: '',
  [`${folder}/status.sh`]: '',
})

/** An app with one sound component besides these files. */
export function appWith(files: Record<string, string | Uint8Array>): Promise<string> {
  return folderWith({
    'metadata.toml': METADATA,
    'components/web.toml': 'name = "web"\ntype = "script"\nsource = "src/web"\n',
    ...scripts('src/web'),
    ...files,
  })
}

export async function mistakesIn(folder: string): Promise<string[]> {
  const found = await inspectApp(folder)
  return found.ok ? [] : found.problems.map(formatProblem)
}
