/** A plugin as one ES module: written in TypeScript, bundled into `plugin/`, which is the folder that is built from. */
export function typescriptTemplate(name: string): Record<string, string> {
  const description = {
    name,
    version: '0.1.0',
    operations: ['deploy', 'destroy', 'status'],
    kind: 'node',
    entry: 'main.mjs',
    configSchema: { type: 'object', properties: { greeting: { type: 'string' } } },
  }
  const packageFile = {
    name,
    version: '0.1.0',
    private: true,
    type: 'module',
    scripts: {
      build:
        'esbuild src/main.ts --bundle --platform=node --format=esm --target=node20 --outfile=plugin/main.mjs',
      check: 'tsc --noEmit',
    },
    devDependencies: { esbuild: '^0.28.0', typescript: '^5.9.0 || ^7.0.0', '@types/node': '^20.19.0' },
  }
  const compiler = { target: 'ES2023', module: 'NodeNext', strict: true, noEmit: true, types: ['node'] }
  return {
    'package.json': `${JSON.stringify(packageFile, null, 2)}\n`,
    'tsconfig.json': `${JSON.stringify({ compilerOptions: compiler, include: ['src'] }, null, 2)}\n`,
    'plugin/plugin.json': `${JSON.stringify(description, null, 2)}\n`,
    'src/tenon.ts': TYPES,
    'src/main.ts': MAIN,
    'README.md': README.replaceAll('NAME', name),
  }
}

const TYPES = `/** What a job gives to a plugin, and what it takes back. */
export interface OperationContext {
  operation: { operation: string; component: string | null; config: Record<string, unknown> }
  /** The component's own fields, templates rendered. It may hold secrets. */
  rendered(): Promise<Record<string, unknown>>
  api: {
    secret(name: string): Promise<string>
    outputs(component: string): Promise<Outputs>
    progress(message: string, fraction: number | null): Promise<void>
  }
  /** One line of the job's log. Never a secret. */
  log(line: string): void
  /** A folder of this operation alone. */
  workDir: string
  /** The environment for programs that you start. */
  baseEnv: Record<string, string>
  /** Aborts when the job is told to stop. */
  signal: AbortSignal
}

export type Outputs = Record<string, { value?: unknown; sensitive: boolean }>

/** ok: false is a result too: it was tried, and it did not go well. */
export interface OperationResult {
  ok: boolean
  message: string
  /** Facts for the record. Never a secret. */
  data: Record<string, unknown>
  outputs?: Outputs
}

export interface Plugin {
  operations: Record<string, (context: OperationContext) => Promise<OperationResult>>
}
`

const MAIN = `import type { OperationContext, OperationResult, Plugin } from './tenon.js'

const plugin: Plugin = { operations: { deploy, destroy, status } }
export default plugin

/** Makes the component what its configuration says, also for the tenth time. */
async function deploy({ rendered, log, operation }: OperationContext): Promise<OperationResult> {
  const { greeting = 'hello' } = await rendered()
  log(\`deploying \${operation.component}: \${greeting}\`)
  const outputs = { message: { value: greeting, sensitive: false } }
  return { ok: true, message: \`said \${greeting}\`, data: {}, outputs }
}

/** Removes it; nothing there is fine too. */
async function destroy({ operation }: OperationContext): Promise<OperationResult> {
  return { ok: true, message: \`removed \${operation.component}\`, data: {} }
}

async function status(): Promise<OperationResult> {
  return { ok: true, message: 'it is well', data: {} }
}
`

const README = `# NAME

A component type of your own, in TypeScript.

    npm install
    npm run build     # src/main.ts becomes plugin/main.mjs

\`plugin/\` is what is built and delivered: plugin.json, which says what it can do, and main.mjs.
A component that uses it, in the app's \`components/\`:

    name = "greeting"
    type = "plugin"
    source = "../NAME/plugin"
    greeting = "hello, {{ .tenon.install.name }}"
`
