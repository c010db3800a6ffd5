export { createAgent, type Agent, type AgentOptions } from './agent.ts'
export {
  createChannel,
  type Channel,
  type ChannelOptions,
  type FinalReject,
  type Heartbeat,
  type Welcome,
} from './channel/channel.ts'
export type { HelloContent } from './channel/handshake.ts'
export { readConfig, type AgentConfig } from './config.ts'
export { loadSigningKey, makeSigningKey, type SigningKey } from './ground/crypto.ts'
export { enrol, type EnrolOptions } from './enrolment/enrol.ts'
export { AGENT_ERROR_CODES, AgentError, type AgentErrorCode } from './ground/errors.ts'
export { EXIT, type ExitCode } from './ground/exit-codes.ts'
export type {
  JobExit,
  JobHandle,
  JobLimits,
  JobSpec,
  Runtime,
  RuntimeDescription,
} from './runtime/runtime.ts'
export { RuntimeError } from './runtime/runtime.ts'
export { createProcessRuntime } from './runtime/process/process-runtime.ts'
