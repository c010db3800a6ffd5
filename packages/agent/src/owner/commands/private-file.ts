import { open, rm } from 'node:fs/promises'
import { AgentError } from '../../ground/errors.ts'

/** A new file for its owner alone; one that is there is never written over. */
export async function writePrivateFile(file: string, content: string | Uint8Array): Promise<void> {
  const handle = await open(file, 'wx', 0o600).catch((cause: NodeJS.ErrnoException) => {
    throw refused(file, cause)
  })
  try {
    await handle.writeFile(content)
    await handle.sync()
  } catch (error) {
    await rm(file, { force: true })
    throw error
  } finally {
    await handle.close()
  }
}

function refused(file: string, cause: NodeJS.ErrnoException): AgentError {
  if (cause.code === 'EEXIST') {
    return new AgentError('output_refused', `The file ${file} is there already.`, 'Name another file.', {
      cause,
    })
  }
  return new AgentError(
    'output_refused',
    `The file ${file} cannot be made: ${cause.message}.`,
    'Name a file in a folder that you may write to.',
    { cause },
  )
}
