/**
 * The minor version of Tenon is the version of all that two programs of different age share: the agent channel, the job
 * API, manifests, plugins and stored formats. Each change of one of them raises it and adds a line here.
 *   1  enrolment, handshake with a signed nonce, inventory, jobs, logs by byte offset, credentials, sealed secrets,
 *      attestations, one-time registry tokens, services on the agent's own engine; both sides had to be equal
 *   2  both sides say which versions they speak and what they can do; what is signed travels as text and may have fields
 *      that the reader does not know; manifests have a body with a digest, a network, a role and requirements; agents hold
 *      jobs; unknown frames are answered, unknown values of open lists are kept
 *   3  agents keep jobs to the network of their manifest (CONNECT of the job API) and change their own key; a rotated key
 *      of the server ends; hello signs the range that open named; a refusal brings its verdict; ends, states and verdicts
 *      of jobs that are not known are taken; job API and plugins ignore fields that they do not know
 */
export const WIRE_VERSION = 3

/** Servers serve agents, and agents work with servers, of this many minor versions before their own. */
export const VERSIONS_TOGETHER = 4

/** From this one on, sides of different versions work together. */
const FIRST_TOGETHER = 2

export const PRODUCT_VERSION = `0.${WIRE_VERSION}.0`

export interface WireRange {
  min: number
  max: number
}

/** What this release speaks. */
export const WIRE_RANGE: WireRange = rangeOf(WIRE_VERSION)

export function rangeOf(version: number): WireRange {
  return { min: Math.min(version, Math.max(FIRST_TOGETHER, version - VERSIONS_TOGETHER)), max: version }
}

/** Pure: the newest version that both sides speak. */
export function agreeOnWire(mine: WireRange, theirs: WireRange): number | undefined {
  const newest = Math.min(mine.max, theirs.max)
  return newest >= Math.max(mine.min, theirs.min) ? newest : undefined
}

/** Pure: whether `chosen` is what this side chooses for the range that the other one signed; not all sign one. */
export function isAgreed(mine: WireRange, signed: WireRange | undefined, chosen: number): boolean {
  return signed === undefined || agreeOnWire(mine, signed) === chosen
}

/** Pure: whether programs of these versions are promised to work together. */
export function areTogether(mine: string, theirs: string): boolean {
  const [one, other] = [mine, theirs].map(minorOf)
  if (one === undefined || other === undefined) return false
  return agreeOnWire(rangeOf(one), rangeOf(other)) !== undefined
}

function minorOf(version: string): number | undefined {
  const minor = /^0\.(\d+)\./.exec(version)?.[1]
  return minor === undefined ? undefined : Number(minor)
}

/** For people: which side is too old, and how new it must be. */
export function describeDisagreement(mine: WireRange, theirs: WireRange, me: string, them: string): string {
  const [older, needed] = theirs.max < mine.min ? [them, mine.min] : [me, theirs.min]
  return `${me} speaks ${describeRange(mine)}, ${them} ${describeRange(theirs)}; update ${older} to 0.${needed} or later`
}

function describeRange({ min, max }: WireRange): string {
  return min === max ? `version 0.${max}` : `versions 0.${min} to 0.${max}`
}
