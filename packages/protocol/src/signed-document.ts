import { z } from 'zod'

/** What is signed, as it travels; see core's `SignedDocument`. Server keys have ids, an agent's is named by its fingerprint. */
export const signedDocument = z.object({
  text: z.string().max(1_000_000),
  keyId: z.string().max(100),
  signature: z.base64().max(200),
})
