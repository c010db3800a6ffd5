import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import * as everything from './index.ts'

const { ...protocol } = everything

/** Of another minor version, whoever it is: what is said between agent, server, job and plugin, and what they store. */
const READ: { [name: string]: z.ZodType } = {
  ...protocol.agentFrame.options.reduce((all, frame) => ({ ...all, [nameOf('agent', frame)]: frame }), {}),
  ...protocol.serverFrame.options.reduce((all, frame) => ({ ...all, [nameOf('server', frame)]: frame }), {}),
  agentFrame: protocol.agentFrame,
  serverFrame: protocol.serverFrame,
  ...pick(
    // signed
    'agentHello',
    'serverChallenge',
    'jobReport',
    'agentEvent',
    'agentVerdict',
    'startPermit',
    'signedDocument',
    'signedText',
    'jobManifest',
    'standingManifest',
    'componentJobConfig',
    // enrolment
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
    // job API
    'jobContext',
    'jobSecret',
    'jobProgress',
    'jobResult',
    'jobOutputs',
    'stateLock',
    'savedPlan',
    'attestationRequest',
    'jobCredential',
    'serviceSpec',
    'serviceChoice',
    'serviceState',
    'broughtService',
    'serviceComparison',
    'serviceLogs',
    'pluginDescription',
    'planResult',
  ),
}

/** Objects in which a field too many is a mistake, with the reason. */
const EXCEPTIONS: { [place: string]: string } = {}

/** What a plugin or a job program of later must find in it, though what lies between does not know it. */
const HANDED_ON = ['jobManifest', 'standingManifest', 'componentJobConfig', 'jobContext']

function pick(...names: (keyof typeof protocol)[]): { [name: string]: z.ZodType } {
  return Object.fromEntries(names.map((name) => [name, protocol[name] as z.ZodType]))
}

function nameOf(side: string, frame: { shape: { type: { value: string } } }): string {
  return `${side} ${frame.shape.type.value}`
}

const UNKNOWN = 'fieldOfLater'

describe.each(Object.entries(READ))('%s', (name, schema) => {
  const samples = samplesOf(schema)

  it('has samples that it reads', () => {
    expect(samples.length).toBeGreaterThan(0)
    for (const { value } of samples) expect(schema.safeParse(value).error?.issues ?? []).toEqual([])
  })

  it('reads them with a field that it does not know, in whichever object', () => {
    const refused: string[] = []
    for (const { value, objects } of samples)
      for (const place of objects) {
        const read = schema.safeParse(withField(value, place))
        const isKept = !HANDED_ON.includes(name) || (read.success && hasField(read.data, place))
        if ((!read.success || !isKept) && !(`${name}.${place.join('.')}` in EXCEPTIONS))
          refused.push(place.join('.'))
      }
    expect([...new Set(refused)]).toEqual([])
  })
})

interface Sample {
  value: unknown
  /** Where objects of the schema stand in it. A record's own names are data. */
  objects: (string | number)[][]
}

/** Pure: values that the schema reads, with every object that it has in at least one of them. */
function samplesOf(schema: z.ZodType): Sample[] {
  if (schema instanceof z.ZodObject) return samplesOfObject(schema)
  if (schema instanceof z.ZodUnion) return schema.options.flatMap((one) => samplesOf(one as z.ZodType))
  if (schema instanceof z.ZodArray)
    return samplesOf(schema.element as z.ZodType).map((one) => within([one.value], one, 0))
  if (schema instanceof z.ZodRecord) return samplesOfRecord(schema)
  if (schema instanceof z.ZodNullable || schema instanceof z.ZodOptional || schema instanceof z.ZodDefault)
    return samplesOf(schema.unwrap() as z.ZodType)
  if (schema instanceof z.ZodExactOptional) return samplesOf(schema.unwrap() as z.ZodType)
  if (schema instanceof z.ZodPipe) return samplesOf(schema.in as z.ZodType)
  return [{ value: leafOf(schema), objects: [] }]
}

function samplesOfObject({ shape }: z.ZodObject): Sample[] {
  const fields = Object.entries(shape).map(([key, field]) => [key, samplesOf(field as z.ZodType)] as const)
  const first = fields.map(([key, samples]) => [key, samples[0]!] as const)
  const others = fields.flatMap(([key, samples]) => samples.slice(1).map((sample) => [key, sample] as const))
  return [undefined, ...others].map((other) => {
    const parts = first.map(([key, sample]) => [key, other?.[0] === key ? other[1] : sample] as const)
    return {
      value: Object.fromEntries(parts.map(([key, { value }]) => [key, value])),
      objects: [[], ...parts.flatMap(([key, { objects }]) => objects.map((place) => [key, ...place]))],
    }
  })
}

function samplesOfRecord(schema: z.ZodRecord): Sample[] {
  const key = String(leafOf(schema.keyType as z.ZodType))
  return samplesOf(schema.valueType as z.ZodType).map((one) => within({ [key]: one.value }, one, key))
}

function within(value: unknown, { objects }: Sample, key: string | number): Sample {
  return { value, objects: objects.map((place) => [key, ...place]) }
}

const LEAVES = [
  'some-name',
  'a word',
  '',
  'AAAA',
  `agt_${'0'.repeat(26)}`,
  `sha256:${'a'.repeat(64)}`,
  'f'.repeat(64),
  '2026-11-15T12:00:00.000Z',
  'example.org:443',
  'a random id of a start',
  1,
  0,
  0.5,
  true,
  null,
  {},
]

function leafOf(schema: z.ZodType): unknown {
  if (schema instanceof z.ZodLiteral) return schema.value
  if (schema instanceof z.ZodEnum) return schema.options[0]
  const leaf = LEAVES.find((value) => schema.safeParse(value).success)
  if (leaf === undefined) throw new Error(`no sample for ${schema.def.type}: ${JSON.stringify(schema.def)}`)
  return leaf
}

function withField(value: unknown, place: readonly (string | number)[]): unknown {
  const [key, ...rest] = place
  if (key === undefined) return { ...(value as object), [UNKNOWN]: { with: ['content'] } }
  if (Array.isArray(value)) return value.map((one, index) => (index === key ? withField(one, rest) : one))
  const fields = value as { [key: string]: unknown }
  return { ...fields, [key]: withField(fields[key], rest) }
}

function hasField(value: unknown, place: readonly (string | number)[]): boolean {
  const found = place.reduce<unknown>((at, key) => (at as { [key: string]: unknown })[key], value)
  return UNKNOWN in (found as object)
}
