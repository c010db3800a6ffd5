import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { build } from 'esbuild'
import { describe, expect, it } from 'vitest'
import { folderWith } from '../testing/app-folder.ts'
import { temporaryFolder } from '../testing/run-cli.ts'

const COMPONENTS = 300
const INPUTS = 100
const ACTIONS = 98

function bigApp(): Record<string, string> {
  const files: Record<string, string> = {
    'metadata.toml': 'version = "v2"\ndisplay_name = "Big"\ndescription = "500 files"\n',
    'sandbox.toml':
      'terraform_version = "1.11.3"\n[public_repo]\nrepo = "o/r"\n[vars]\nname = "{{ .nuon.install.id }}"\n',
  }
  const repo = '[public_repo]\nrepo = "o/r"\ndirectory = "x"\nbranch = "main"\n'
  for (let i = 0; i < COMPONENTS; i++) {
    const before = i === 0 ? '' : `dependencies = ["c${i - 1}"]\n`
    const use = i < 3 ? 'x' : `{{ .nuon.components.c${i - 3}.outputs.url }}`
    const values = Array.from(
      { length: 10 },
      (_, n) => `key${n}: "{{ .nuon.inputs.inputs.in${(i + n) % INPUTS} }}"`,
    )
    files[`components/c${i}.toml`] =
      `name = "c${i}"\ntype = "helm_chart"\nchart_name = "c${i}"\nnamespace = "n"\nmax_auto_retries = 5\n${before}` +
      `${repo}[values]\nurl = "${use}"\n[[values_file]]\ncontents = """\n${values.join('\n')}\n"""\n`
  }
  for (let i = 0; i < INPUTS; i++)
    files[`inputs/in${i}.toml`] =
      `name = "in${i}"\ndisplay_name = "In ${i}"\ndescription = "d"\ndefault = "x"\n`
  for (let i = 0; i < ACTIONS; i++)
    files[`actions/a${i}.toml`] =
      `name = "a${i}"\ntimeout = "5m"\n[[triggers]]\ntype = "cron"\ncron_schedule = "${i % 6} * * * *"\n` +
      `[[steps]]\nname = "s"\ninline_contents = """\n#!/bin/sh\necho {{ .nuon.components.c${i}.outputs.x }}\n"""\n`
  return files
}

describe('an app of 500 files', () => {
  it(
    'loads in a small multiple of the time that reading and parsing its TOML takes',
    { timeout: 180_000 },
    async () => {
      const files = bigApp()
      const folder = await folderWith(files)
      const names = Object.keys(files)
      expect(names).toHaveLength(500)
      const program = join(await temporaryFolder(), 'load.mjs')
      await build({
        entryPoints: [fileURLToPath(new URL('../testing/load-program.ts', import.meta.url))],
        outfile: program,
        bundle: true,
        platform: 'node',
        format: 'esm',
        logLevel: 'error',
        banner: {
          js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);",
        },
      })
      const { stdout } = await promisify(execFile)(process.execPath, [program, folder, ...names])
      const { bare, loading, components } = JSON.parse(stdout) as Record<string, number>
      const ratio = loading! / bare!
      console.log(
        `app config: 500 files in ${loading!.toFixed(0)} ms; read and parsed alone ${bare!.toFixed(0)} ms, ${ratio.toFixed(1)} times that`,
      )
      expect(components).toBe(COMPONENTS)
      expect(ratio).toBeLessThan(12)
    },
  )
})
