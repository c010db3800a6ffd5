import { canonicalText, FEATURES } from '@tenon/core'
import * as everything from '@tenon/protocol'
import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { storedIdentity } from './enrolment/identity.ts'
import { journalEntry } from './journal/journal-entry.ts'
import { recordSchema as dockerJob } from './runtime/docker/job-folder.ts'
import { recordSchema as kubernetesJob } from './runtime/kubernetes/job-folder.ts'
import { recordSchema as processJob } from './runtime/process/job-folder.ts'
import { exportHead, exportRecord } from './store/export-format.ts'
import { recordHeader } from './store/sealed-record.ts'

const { ...protocol } = everything

type Contract = { [part: string]: z.ZodType | object }

/** All that two programs of different age share, or that one reads which another wrote. */
const CONTRACTS = {
  agentFrame: pick(
    'agentFrame',
    'agentHello',
    'jobReport',
    'agentEvent',
    'agentVerdict',
    'attestationRequest',
  ),
  serverFrame: pick('serverFrame', 'serverChallenge', 'startPermit', 'jobCredential'),
  enrolment: pick(
    'proveRequest',
    'proveResponse',
    'serverProof',
    'enrolRequest',
    'enrolment',
    'enrolResponse',
    'enrolled',
    'rotateKeyRequest',
    'rotateKeyResponse',
    'keyAccepted',
  ),
  manifest: { ...pick('jobManifest', 'standingManifest', 'componentJobConfig'), FEATURES },
  jobApi: pick(
    'jobContext',
    'jobSecret',
    'jobProgress',
    'jobResult',
    'jobOutputs',
    'stateLock',
    'savedPlan',
    'serviceSpec',
    'serviceState',
    'broughtService',
    'serviceChoice',
    'serviceComparison',
    'serviceLogs',
  ),
  plugin: { ...pick('pluginDescription', 'planResult'), MEDIA_TYPES: protocol.MEDIA_TYPES },
  journal: { journalEntry, processJob, dockerJob, kubernetesJob },
  identity: { storedIdentity },
  store: { recordHeader },
  storeExport: { exportHead, exportRecord },
} satisfies { [name: string]: Contract }

/** As each is today, and the minor version that made it so: a digest moves only together with its minor. */
const GOLDEN: { [name in keyof typeof CONTRACTS]: { digest: string; minor: number } } = {
  agentFrame: { digest: '3e75ac32699cdd32', minor: 3 },
  serverFrame: { digest: 'd672659192c6d93c', minor: 3 },
  enrolment: { digest: '8c385cfa94433829', minor: 3 },
  manifest: { digest: '5dd3b53cd4ff5925', minor: 3 },
  jobApi: { digest: '1a0546b959fe578b', minor: 3 },
  plugin: { digest: 'd7d933dff955454c', minor: 2 },
  journal: { digest: '73e61b51de6f3677', minor: 2 },
  identity: { digest: '1634987bd9e1efce', minor: 3 },
  store: { digest: '56d68755c1c41c39', minor: 2 },
  storeExport: { digest: '2805639b717db850', minor: 3 },
}

function pick(...names: (keyof typeof protocol)[]): { [part: string]: z.ZodType } {
  return Object.fromEntries(names.map((name) => [name, protocol[name] as z.ZodType]))
}

/** Pure: of everything that is written into it, in either direction; lists that are open with what is known of them. */
function digestOf(contract: Contract): string {
  const described = Object.entries(contract).map(([part, one]) => [
    part,
    one instanceof z.ZodType ? z.toJSONSchema(one, { io: 'input', unrepresentable: 'any' }) : one,
  ])
  return createHash('sha256')
    .update(canonicalText(Object.fromEntries(described)))
    .digest('hex')
    .slice(0, 16)
}

describe.each(Object.entries<Contract>(CONTRACTS))('the contract %s', (name, contract) => {
  const golden = GOLDEN[name as keyof typeof GOLDEN]

  it('is the one of its version', () => {
    const digest = digestOf(contract)
    if (digest !== golden.digest)
      throw new Error(
        `the wire changed: raise the minor in package.json and say in version.ts what came, or show that it is the same; then ${name} has ${digest} here`,
      )
    expect(golden.minor).toBeLessThanOrEqual(protocol.WIRE_VERSION)
  })

  it('is another with one field more, in whichever part', () => {
    const unseen = Object.entries(contract).flatMap(([part, one]) =>
      withOneMore(one).filter((other) => digestOf({ ...contract, [part]: other }) === golden.digest),
    )
    expect(unseen).toEqual([])
  })
})

/** Pure: what somebody might make of it, one field at a time. */
function withOneMore(one: z.ZodType | object): (z.ZodType | object)[] {
  if (!(one instanceof z.ZodType)) return [{ ...one, later: 'one more' }]
  if (one instanceof z.ZodObject) return [one.extend({ later: z.string().optional() })]
  if (one instanceof z.ZodRecord)
    return withOneMore(one.valueType as z.ZodType).map((value) => z.record(z.string(), value as z.ZodType))
  if (!(one instanceof z.ZodUnion)) throw new Error(`no field can be added to ${one.def.type}`)
  const options = one.options as z.ZodType[]
  return options.flatMap((option) =>
    withOneMore(option).map((other) =>
      z.union(options.map((o) => (o === option ? (other as z.ZodType) : o))),
    ),
  )
}
