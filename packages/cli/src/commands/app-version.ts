import { ApiError, type CallOutput, type Client } from '@tenon/protocol'

export type AppVersion = CallOutput<'apps.version'>

/** The newest version of an app, with its content. */
export async function newestVersion(client: Client, ref: string): Promise<AppVersion> {
  const { version } = await client.call('apps.get', { params: { ref } })
  return client.call('apps.version', { params: { ref, number: String(version) } })
}

/** The same, or undefined when the server does not have the app. */
export async function newestVersionIfAny(client: Client, ref: string): Promise<AppVersion | undefined> {
  try {
    return await newestVersion(client, ref)
  } catch (error) {
    if (error instanceof ApiError && error.code === 'not_found') return undefined
    throw error
  }
}
