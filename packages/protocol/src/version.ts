/**
 * The version of the agent channel and the job API.
 *   1  enrolment, handshake with a signed nonce, inventory, jobs, logs by byte offset, credentials, sealed secrets
 */
export const WIRE_VERSION = 1

export const PRODUCT_VERSION = '0.1.0'
