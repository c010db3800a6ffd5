import { readFile } from 'node:fs/promises'
import { AgentError } from '../ground/errors.ts'

export async function readTokenFile(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8')
  } catch (cause) {
    throw new AgentError(
      'bad_config',
      `The join token's file ${file} cannot be read.`,
      'Check the path and who may read it.',
      { cause },
    )
  }
}
