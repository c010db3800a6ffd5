import { mkdtemp, rm } from 'node:fs/promises'
import http from 'node:http'
import os from 'node:os'
import path from 'node:path'
import type { JobManifest } from '@tenon/core'
import { pino } from 'pino'
import { createAgent, type Agent } from '../agent.ts'
import type { AgentConfig } from '../config.ts'
import { createFakeMemory } from '../runtime/fake/store.ts'
import { createFakeRuntime, type FakeRuntime } from '../runtime/fake.ts'
import type { JobSpec } from '../runtime/runtime.ts'
import { configOf } from './agent-config.ts'
import { ContractServer } from './contract-server.ts'
import { waitUntil } from './wait-until.ts'

export interface ApiJob {
  manifest: JobManifest
  spec: JobSpec
}

export interface ApiAnswer {
  status: number
  bytes: Buffer
  /** The parsed body, where it is JSON. */
  body: { error?: { code: string; message: string; remedy: string } } & Record<string, unknown>
}

/** A real agent whose jobs are fakes, so that a test can speak to the job API in their place. */
export class ApiWorld {
  readonly dir: string
  readonly server: ContractServer
  runtime: FakeRuntime
  readonly #memory = createFakeMemory()
  readonly #specs = new Map<string, JobSpec>()
  #agent: Agent | undefined

  static async create(): Promise<ApiWorld> {
    const dir = await mkdtemp(path.join(os.tmpdir(), 'tenon-api-'))
    return new ApiWorld(dir, await ContractServer.start())
  }

  private constructor(dir: string, server: ContractServer) {
    this.dir = dir
    this.server = server
    this.runtime = createFakeRuntime({ memory: this.#memory })
  }

  get agentDir(): string {
    return path.join(this.dir, 'agent')
  }

  async start(changes: Partial<AgentConfig> = {}): Promise<void> {
    const sessions = this.server.sessions
    this.runtime = createFakeRuntime({ memory: this.#memory })
    const { runtime } = this
    const config = configOf(this.server, this.dir, { dir: this.agentDir, slots: 4, ...changes })
    const start: FakeRuntime['start'] = (spec) => {
      this.#specs.set(`${spec.jobId}/${spec.fence}`, spec)
      return runtime.start(spec)
    }
    const log = pino({ level: process.env['TEST_LOG'] ?? 'silent' })
    this.#agent = createAgent({ config, runtime: { ...runtime, start }, log, random: () => 0.01 })
    await this.#agent.start()
    await this.server.session(sessions + 1)
  }

  async stop(): Promise<void> {
    await this.#agent?.stop()
  }

  /** A running job; it runs until it is released, unless `fake` says otherwise. */
  async job(changes: Partial<JobManifest> = {}, fake: object = { untilReleased: true }): Promise<ApiJob> {
    const manifest = this.server.manifest(changes, fake)
    this.server.assign(manifest)
    await this.server.heard('job.accepted', manifest.jobId)
    const spec = await this.#started(manifest)
    return { manifest, spec }
  }

  runtimeIds(): string[] {
    return this.#memory.ids()
  }

  /** The job's program is dead, and the agent knows it. */
  async end({ manifest }: ApiJob): Promise<void> {
    this.runtime.kill(manifest.jobId)
    await this.server.heard('job.finished', manifest.jobId)
  }

  call(job: ApiJob, method: string, url: string, options: CallOptions = {}): Promise<ApiAnswer> {
    const authorization = options.authorization ?? `Bearer ${job.spec.files['token']}`
    const headers = { authorization, ...options.headers }
    return new Promise((resolve, reject) => {
      const request = http.request({ socketPath: socketOf(job), method, path: url, headers }, (response) => {
        const parts: Buffer[] = []
        response.on('data', (part: Buffer) => parts.push(part))
        response.on('end', () => resolve(answerOf(response.statusCode ?? 0, Buffer.concat(parts))))
      })
      request.on('error', reject)
      request.end(options.body)
    })
  }

  async close(): Promise<void> {
    await this.stop()
    await this.server.close()
    await rm(this.dir, { recursive: true, force: true })
  }

  async #started({ jobId, fence }: JobManifest): Promise<JobSpec> {
    return waitUntil('the start of the job', () => this.#specs.get(`${jobId}/${fence}`))
  }
}

interface CallOptions {
  body?: string | Uint8Array
  headers?: Record<string, string>
  authorization?: string
}

export function socketOf({ spec }: ApiJob): string {
  return spec.env['TENON_JOB_URL']!.slice('unix:'.length)
}

function answerOf(status: number, bytes: Buffer): ApiAnswer {
  let body: ApiAnswer['body'] = {}
  try {
    body = JSON.parse(bytes.toString()) as ApiAnswer['body']
  } catch {
    // A state that a test made up, or nothing at all.
  }
  return { status, bytes, body }
}
