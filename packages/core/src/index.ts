export * from './job-end.ts'
