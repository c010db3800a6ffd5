import type { Context } from '../context.ts'
import { signArtifactsAgain, signLateArtifacts } from '../operations/sign-artifacts-again.ts'

/**
 * Once per start and key, what a rotation that died half way, or an older version of the server, left without a
 * signature that everybody takes; then only what came late.
 */
export function createSignatureWatch(context: Context): () => Promise<void> {
  let checkedFor: string | undefined
  return async () => {
    const { keyId } = context.keys.current()
    const isFirstKey = context.keys.links().length < 2
    if (checkedFor === keyId) return isFirstKey ? undefined : signLateArtifacts(context)
    await signArtifactsAgain(context)
    checkedFor = keyId
  }
}
