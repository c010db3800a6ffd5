import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { LocalHostError } from './client.ts'
import type { LocalHostClient } from './client.ts'
import type { ApplyResult, UnitSpecInput } from '@tenon/protocol/local-host'
import type { ApplyOptions, HostCommand } from './tenon-host-args.ts'

/** Runs one command; standard output gets the answer, standard error the reason of a failure. Returns the exit code. */
export async function runHostCommand(command: HostCommand, shell: Shell): Promise<number> {
  try {
    switch (command.kind) {
      case 'apply':
        return await applyService(command.name, command.apply, shell)
      case 'remove': {
        const removed = await shell.client.deleteService(command.name)
        shell.out(removed ? `removed ${command.name}` : `there was no ${command.name}`)
        return 0
      }
      case 'status': {
        const status = await shell.client.getService(command.name)
        shell.out(JSON.stringify(status))
        return status.state === 'healthy' ? 0 : 1
      }
    }
  } catch (error) {
    if (!(error instanceof LocalHostError)) throw error
    shell.err(`${error.message} ${error.remedy}`)
    return 1
  }
}

async function applyService(name: string, options: ApplyOptions, shell: Shell): Promise<number> {
  const port = await shell.client.allocatePort(`${name}.${options.portName}`)
  const spec: UnitSpecInput = {
    command: options.command,
    env: { ...options.env, PORT: String(port) },
    files: await readFiles(options.files, shell.cwd),
    bundlePath: resolve(shell.cwd, options.bundle),
    health: options.healthPath === undefined ? 'none' : { http: { port, path: options.healthPath } },
  }
  const result = await shell.client.putService(name, spec, { waitSeconds: options.waitSeconds })
  if (result.outcome === 'healthy') {
    shell.err(result.changed ? `${name} is healthy` : `${name} is unchanged and healthy`)
    shell.out(`port=${port} url=http://127.0.0.1:${port}`)
    return 0
  }
  reportFailure(name, result, shell)
  return 1
}

function reportFailure(name: string, result: ApplyResult, shell: Shell): void {
  shell.err(`${name} did not become healthy (${result.outcome}). ${result.reason ?? ''}`)
  for (const line of result.logTail) shell.err(`  ${name} | ${line}`)
}

async function readFiles(files: Record<string, string>, cwd: string): Promise<Record<string, string>> {
  const read = Object.entries(files).map(
    async ([name, path]) => [name, await readFile(resolve(cwd, path), 'utf8')] as const,
  )
  return Object.fromEntries(await Promise.all(read))
}

export interface Shell {
  client: LocalHostClient
  cwd: string
  out: (line: string) => void
  err: (line: string) => void
}
