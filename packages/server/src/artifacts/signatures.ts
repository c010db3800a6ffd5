import type { Context } from '../context.ts'
import {
  signArtifacts,
  signArtifactsAgain,
  signLateArtifacts,
  type Artifact,
} from './sign-artifacts-again.ts'

/**
 * Once per key, what a rotation that died half way, or an older version of the server, left without a signature that
 * everybody takes; then only what came late, and what could not be signed.
 */
export function createSignatureWatch(context: Context): () => Promise<void> {
  let checkedFor: string | undefined
  let failed: Artifact[] = []
  return async () => {
    const { keyId } = context.keys.current()
    const isFirstKey = context.keys.links().length < 2
    if (checkedFor !== keyId) {
      failed = await signArtifactsAgain(context)
      checkedFor = keyId
      return
    }
    if (failed.length > 0) failed = await signArtifacts(context, failed)
    if (!isFirstKey) await signLateArtifacts(context)
  }
}
