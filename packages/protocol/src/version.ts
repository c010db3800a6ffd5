/**
 * The minor version of Tenon is the version of all that two programs of different age share: the agent channel, enrolment,
 * the job API, manifests, plugins and stored formats. Each change of one of them raises it and is said here;
 * agent/src/golden-formats.test.ts fails until it is. What a part does not name it has as before.
 *
 * 0.1  Both sides had to be equal. No later version speaks with it.
 *
 * 0.2  As of commit 9d1d414: with it the promise of versions that live together begins. Earlier commits of the same number
 *      enrol otherwise: what had enrolled works, what had not is refused.
 *   channel    `open` with a range of versions; challenge, hello, reports, events and verdicts as signed text; hello with
 *              wire, features, agentId, serverId and nonces; job.held, job.permit, unsupported; the state held of the
 *              inventory; the event agent.released. Unknown fields are left out, unknown frames answered, lists open
 *   enrolment  a proof for the token's own key, the agent's nonce and purpose; `enrolment` signed by the token's key as
 *              well; a signed `enrolled`; agent_in_place where nobody gave the former agent up
 *   manifest   version 2: an envelope around a body with its digest (content), role, network, requires, and of each
 *              operation configDigest; at most 24 hours; of each kind its own operations alone (not_its_kind)
 *   features   hold, network
 *   journal    entries held and permit; finished and event keep signed text
 *   audit      report, event and verdict as {text, keyId, signature}
 *   artifacts  signatures without a keyid in their envelope
 *   database   0010, 0012, 0013
 *   API        installs.delete; replaces, withDependents; the states held and lapsed
 *
 * 0.3
 *   channel    `speaks` of hello; `verdict` of job.refused, `since` of verdicts, the answer no; previousEnd of server keys;
 *              events agent.job_forgotten and agent.key_rotated; outcomes, inventory states and actions of credentials are
 *              open lists; frames with digits and underscores in their names, and binary ones, are answered when unknown
 *   enrolment  /agent/v1/rotate-key (rotateKeyRequest, keyAccepted); the role is an open list
 *   manifest   fields that are not known are handed on; no field in both parts; kinds and roles that are not known are
 *              `unsupported`; life counts from the earlier of issuedAt and notBefore
 *   features   job-networks, hold-answers
 *   job API    CONNECT; context, progress, result and services take and hand on fields that they do not know
 *   identity   endedKeys in identity.json; journal.key, agent.key.next
 *   store      exports with fields that are not known
 *   audit      hello as {text, keyId, signature}, or its digest
 *   artifacts  titles of files; sha512 digests
 *   database   0008, 0009, 0020, 0021, 0024, 0025
 *   API        registry.login and registry.logout; egress in apps; principals; keyChanges; open lists in answers
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
