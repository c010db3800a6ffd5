/** What a job may reach besides its own loopback, from the narrowest to the widest; each holds what the one before it does. */
export const NETWORK_MODES = ['internal', 'cluster', 'egress', 'open'] as const
/**
 * `internal`: the job API and the install registry. `cluster`: on Kubernetes the API server and DNS too. `egress`: the declared
 * names as well. `open`: whatever the agent's machine reaches.
 */
export type NetworkMode = (typeof NETWORK_MODES)[number]

/** The address at which the agent reaches its own server, which the server itself may not know. */
export const SERVER_NAME = 'server'

export interface JobNetwork {
  mode: NetworkMode
  /** With `egress`: `host:port`, or `server`. None declared: nothing is narrowed, and `doctor` says so. */
  names: string[]
}

/** Pure: the customer's setting may take away, never add. */
export function narrowNetwork(wanted: JobNetwork, limit: NetworkMode | undefined): JobNetwork {
  if (limit === undefined || widthOf(limit) >= widthOf(wanted.mode)) return wanted
  return { mode: limit, names: limit === 'egress' ? wanted.names : [] }
}

function widthOf(mode: NetworkMode): number {
  return NETWORK_MODES.indexOf(mode)
}
