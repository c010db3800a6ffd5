export { startProgram, ProgramFailed, type Program } from './program.ts'
export { createWorld, type AgentOptions, type ServerHandle, type World } from './world.ts'
