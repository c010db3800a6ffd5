import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

/** Makes one file of a program, so that a child process starts it as it would be deployed. */
export const bundle = async (entry: URL, outfile: string): Promise<string> => {
  await build({
    entryPoints: [fileURLToPath(entry)],
    outfile,
    bundle: true,
    platform: 'node',
    format: 'esm',
    logLevel: 'error',
    banner: { js: "import { createRequire as r } from 'node:module'; const require = r(import.meta.url);" },
  })
  return outfile
}

export interface Program {
  child: ChildProcess
  ended: Promise<{ code: number | null; output: string }>
  /** The first group of the first match in what it says; fails when it ends before. */
  says(pattern: RegExp): Promise<string>
  onOutput(listener: (text: string) => void): void
}

export const startProgram = (file: string, args: string[]): Program => {
  const child = spawn(process.execPath, [file, ...args], { stdio: ['ignore', 'pipe', 'pipe'], env: {} })
  let output = ''
  const listeners: ((text: string) => void)[] = []
  const hear = (chunk: Buffer): void => {
    output += chunk.toString()
    for (const listener of listeners) listener(output)
  }
  child.stdout.on('data', hear)
  child.stderr.on('data', hear)
  const ended = new Promise<{ code: number | null; output: string }>((resolve) =>
    child.on('close', (code) => resolve({ code, output })),
  )
  return {
    child,
    ended,
    onOutput: (listener) => listeners.push(listener),
    says: (pattern) =>
      new Promise((resolve, reject) => {
        const look = (text: string): void => {
          const [whole, part] = pattern.exec(text) ?? []
          if (whole !== undefined) resolve(part ?? whole)
        }
        look(output)
        listeners.push(look)
        void ended.then((end) => reject(new Error(`it ended: ${end.output}`)))
      }),
  }
}
