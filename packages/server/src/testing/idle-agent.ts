import { connectAgent, enrolTestAgent, type HelloOptions, type TestAgent } from './test-agent.ts'
import type { TestServer } from './test-server.ts'

/** A setup agent that is connected and has nothing to do. */
export async function idleAgent(
  { client, url }: Pick<TestServer, 'client' | 'url'>,
  options: HelloOptions = {},
): Promise<TestAgent> {
  const { joinToken } = await client.call('agents.joinToken', { body: { role: 'setup' } })
  return connectAgent(url, await enrolTestAgent(url, joinToken), options)
}
