export { readConfig, type Config } from './config.ts'
export { StartError } from './errors.ts'
export { startServer, type Server } from './start.ts'
export { startEmbeddedPostgres } from './postgres/embedded-postgres.ts'
