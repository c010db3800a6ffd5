import type { Context } from '../context.ts'
import { signArtifactsAgain, signLateArtifacts } from '../operations/sign-artifacts-again.ts'

/** Finishes what a rotation that died half way left unsigned, then looks only after what came late. */
export function createSignatureWatch(context: Context): () => Promise<void> {
  let checkedFor: string | undefined
  return async () => {
    const { keyId } = context.keys.current()
    const isFirstKey = context.keys.links().length < 2
    if (checkedFor === keyId) return isFirstKey ? undefined : signLateArtifacts(context)
    if (!isFirstKey) await signArtifactsAgain(context)
    checkedFor = keyId
  }
}
