import { access, constants } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import type { OperationContext } from '../sdk/plugin.ts'

/** A file in one of the folders that the vendor lent to the build agent; undefined when no folder has it. */
export async function lentFile(
  context: Pick<OperationContext, 'baseEnv'>,
  name: 'registries.json' | 'git-credentials' | 'aws.json' | 'terraform.rc' | 'google-token' | 'docker.sock',
): Promise<string | undefined> {
  const folders = (context.baseEnv['TENON_LENT_PATHS'] ?? '')
    .split(delimiter)
    .filter((folder) => folder !== '')
  for (const folder of folders) {
    const path = join(folder, name)
    if (
      await access(path, constants.R_OK).then(
        () => true,
        () => false,
      )
    )
      return path
  }
  return undefined
}
