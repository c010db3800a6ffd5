import { packFolder } from '@tenon/oci'
import { randomBytes } from 'node:crypto'
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { until } from './until.ts'
import { createWorld, type Dists, type ServerHandle, type World } from './world.ts'

/** The app that every scenario deploys; what its jobs do is up to the scenario. */
export const APP = 'shop'
export const COMPONENTS = ['web', 'api', 'worker']

/** A tenant with a synced and really built app, made once and copied for each scenario. */
export interface Template {
  /** A copy of its own: a database, and the server's folder in `dir`. */
  copy(dir: string): Promise<{ databaseUrl: string; drop(): Promise<void> }>
  remove(): Promise<void>
}

export async function makeTemplate(options: Dists & { clusterUrl: string }): Promise<Template> {
  const { clusterUrl, ...dists } = options
  const dir = mkdtempSync(join(tmpdir(), 'tenon-template-'))
  const name = `template_${randomBytes(6).toString('hex')}`
  await administer(clusterUrl, `create database ${name}`)
  const world = createWorld({ dir, ...dists })
  const remove = async () => {
    await administer(clusterUrl, `drop database if exists ${name} with (force)`)
    rmSync(dir, { recursive: true, force: true })
  }
  try {
    const server = await world.startServer({ env: { DATABASE_URL: databaseOf(clusterUrl, name) } })
    try {
      await buildApp(world, server)
    } finally {
      await server.program.stop()
    }
  } catch (error) {
    await remove()
    throw error
  }
  return {
    async copy(to) {
      const copy = `scenario_${randomBytes(6).toString('hex')}`
      await administer(clusterUrl, `create database ${copy} template ${name}`)
      cpSync(join(dir, 'server'), join(to, 'server'), { recursive: true })
      return {
        databaseUrl: databaseOf(clusterUrl, copy),
        drop: () => administer(clusterUrl, `drop database if exists ${copy} with (force)`),
      }
    },
    remove,
  }
}

/** The real way: sources sent, built by a real build agent in real jobs. */
export async function buildApp(
  world: World,
  server: ServerHandle,
  { names = COMPONENTS, deploy = 'exit 0', modules = {} }: BuiltApp = {},
): Promise<void> {
  const { client } = server
  const scripts = Object.entries({ deploy, destroy: 'exit 0', status: 'exit 0' }).map(
    ([script, lines]) => [`${script}.sh`, `#!/bin/sh\n${lines}\n`] as const,
  )
  const agent = await world.startAgent(server, { name: 'build-agent', role: 'build' })
  try {
    const components = names.map((name) => ({
      name,
      type: modules[name] === undefined ? 'script' : 'terraform_module',
      dependencies: [],
      config: {},
    }))
    await client.call('apps.sync', {
      body: { app: { name: APP, displayName: 'Shop', description: '', components } },
    })
    const sourced = []
    for (const name of names) {
      const module = modules[name]
      const folder = writeSource(world, name, module === undefined ? scripts : [['main.tf', module]])
      const { digest } = await client.call('sources.put', { body: await packFolder(folder) })
      sourced.push({ name, source: digest })
    }
    const { builds } = await client.call('builds.create', {
      params: { ref: APP },
      body: { components: sourced },
    })
    for (const { id } of builds) {
      const ended = await until(
        `the build ${id}`,
        async () => {
          const build = await client.call('builds.get', { params: { id } })
          return build.finishedAt !== null && build
        },
        60,
      )
      if (ended.status !== 'succeeded')
        throw new Error(`the build of ${ended.component} ${ended.status}: ${ended.message}`)
    }
  } finally {
    await agent.stop()
  }
}

interface BuiltApp {
  names?: string[]
  /** The deploy.sh of its scripts. */
  deploy?: string
  /** The main.tf of those that are modules. */
  modules?: Readonly<Record<string, string>>
}

function writeSource(world: World, name: string, files: (readonly [name: string, text: string])[]): string {
  const folder = join(world.folder('source'), name)
  mkdirSync(folder, { recursive: true })
  for (const [file, text] of files) writeFileSync(join(folder, file), text, { mode: 0o755 })
  return folder
}

async function administer(clusterUrl: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: clusterUrl })
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}

function databaseOf(clusterUrl: string, name: string): string {
  const url = new URL(clusterUrl)
  url.pathname = `/${name}`
  return url.toString()
}
