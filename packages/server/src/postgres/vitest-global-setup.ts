import { startTestCluster, testClusterVariable } from './test-database.ts'

/** One PostgreSQL for the whole run; workers inherit its address and make databases on it. */
export default async function setup(): Promise<() => Promise<void>> {
  const cluster = await startTestCluster()
  process.env[testClusterVariable] = cluster.url
  return async () => {
    delete process.env[testClusterVariable]
    await cluster.stop()
  }
}
