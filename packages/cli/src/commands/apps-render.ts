import { preview, type Json } from '@tenon/core'
import type { Cli } from '../cli.ts'
import { usageError } from '../errors.ts'
import { EXIT } from '../exit-codes.ts'
import { plain } from '../output/clean.ts'
import { newestVersion } from './app-version.ts'

/** A component's configuration as it would be rendered in an install, as far as the server knows the values. */
export async function renderComponent(cli: Cli, component: string, ref: string): Promise<void> {
  const { out } = cli
  const client = await cli.client()
  const install = await client.call('installs.get', { params: { ref } })
  const { app, number } = await newestVersion(client, install.app)
  const found = app.components.find(({ name }) => name === component)
  if (!found)
    throw usageError(
      `the app has no component ${component}`,
      `it has: ${app.components.map((c) => c.name).join(', ')}`,
    )
  const deployed = new Map(install.components.map((each) => [each.name, each]))
  const shown = preview(found.config, app, {
    id: install.id,
    name: install.name,
    app: { id: app.name, name: app.name, version: number },
    inputs: install.inputs ?? {},
    sandbox: { type: install.sandbox },
    components: app.components.map(({ name, varName }) => {
      const known = deployed.get(name)
      return {
        name,
        ...(varName === undefined ? {} : { varName }),
        status: known?.status ?? 'pending',
        ...(known && known.deployedAt !== null ? { outputs: known.outputs } : {}),
      }
    }),
  })
  if (shown.problems.length > 0) cli.exitCode = EXIT.failed
  if (cli.globals.json) return out.json(shown)
  for (const line of leaves(shown.value, '')) out.line(line)
  for (const { path, message, next } of shown.problems) {
    out.note(`error: ${path} cannot be shown: ${plain(message)}`)
    out.note(`next: ${plain(next)}`)
  }
}

/** One line for each value; text of several lines below its name. */
function* leaves(value: Json, path: string): Generator<string> {
  if (typeof value === 'object' && value !== null && Object.keys(value).length > 0) {
    for (const [key, child] of Object.entries(value))
      yield* leaves(child, path === '' ? key : `${path}.${key}`)
  } else if (typeof value === 'string' && value.includes('\n')) {
    yield `${path}: |`
    for (const line of value.replace(/\n$/, '').split('\n')) yield `  ${plain(line)}`
  } else yield `${path}: ${typeof value === 'string' ? plain(value) : JSON.stringify(value)}`
}
