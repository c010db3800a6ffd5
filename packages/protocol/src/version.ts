/**
 * The version of the agent channel and the job API.
 *   1  enrolment, handshake with a signed nonce, inventory, jobs, logs by byte offset, credentials, sealed secrets;
 *      added without a new number: attestations, one-time registry tokens, the pinned keys in a job's context,
 *      services on the agent's own engine
 */
export const WIRE_VERSION = 1

export const PRODUCT_VERSION = '0.1.0'
