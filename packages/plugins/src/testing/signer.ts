import { generateKeyPairSync, sign as signWith } from 'node:crypto'
import {
  provenanceStatement,
  signatureStatement,
  signStatement,
  type Sign,
  type Statement,
} from '@tenon/core'

export interface TestSigner {
  keyId: string
  publicKey: string
  sign: Sign
}

/** A key as a server has it. */
export function testSigner(keyId = 'key_00000000000000000000000001'): TestSigner {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  return {
    keyId,
    publicKey: publicKey.export({ format: 'der', type: 'spki' }).toString('base64'),
    sign: (bytes) => signWith(null, bytes, privateKey).toString('base64'),
  }
}

export function statementsFor(subject: { repository: string; digest: string }): Statement[] {
  const facts = { serverId: 'test', buildType: 'script', external: {}, internal: {}, materials: [] }
  return [signatureStatement(subject), provenanceStatement(subject, { ...facts, invocationId: 'job_test' })]
}

export function bundlesFor(
  subject: { repository: string; digest: string },
  { keyId, sign }: Pick<TestSigner, 'keyId' | 'sign'>,
): { predicateType: string; text: string }[] {
  return statementsFor(subject).map((statement) => ({
    predicateType: statement.predicateType,
    text: signStatement(statement, keyId, sign),
  }))
}
