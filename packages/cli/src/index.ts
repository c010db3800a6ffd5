export { loadApp, type LoadedApp } from './app-config/load-app.ts'
export { EXIT } from './exit-codes.ts'
export { systemClock, type Io } from './io.ts'
export { run } from './run.ts'
