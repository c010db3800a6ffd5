import type { ContractServer } from './contract-server.ts'

export const NO_CREDENTIAL = 'there is none in this test'

/** Jobs hear that there is nothing to pull their plugin by, once the agent has come back; until then they wait. */
export function refuseCredentialsAfterDeath(server: ContractServer): void {
  server.onFrame = (frame, socket) => {
    if (frame.type !== 'credential.request' || server.sessions < 2) return false
    const { requestId } = frame
    socket.send(JSON.stringify({ type: 'credential.refused', requestId, message: NO_CREDENTIAL }))
    return true
  }
}
