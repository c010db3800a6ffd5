import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { stringify } from 'yaml'
import type { KubeObject } from '../kubernetes/objects.ts'
import type { Chart } from './helm.ts'

/**
 * A chart that makes exactly the given objects, hooks included: what was planned and checked is what Helm installs.
 * A post-renderer would not do: Helm 3 gives it no hooks, and Helm 3 and 4 start it differently.
 */
export async function writeRenderedChart(
  folder: string,
  chart: Chart,
  content: { objects: KubeObject[]; hooks: KubeObject[]; crds: KubeObject[] },
): Promise<string> {
  for (const part of ['templates', 'rendered', 'crds']) {
    await mkdir(join(folder, part), { recursive: true, mode: 0o700 })
  }
  const { name, version, appVersion } = chart
  const head = { apiVersion: 'v2', name, version, ...(appVersion === '' ? {} : { appVersion }) }
  await write(join(folder, 'Chart.yaml'), stringify(head))
  for (const [index, object] of [...content.objects, ...content.hooks].entries()) {
    const file = `${String(index).padStart(4, '0')}.yaml`
    await write(join(folder, 'rendered', file), yamlOf(object))
    // Taken as a file's content, nothing in it can be a template.
    await write(join(folder, 'templates', file), `{{ .Files.Get "rendered/${file}" }}\n`)
  }
  for (const [index, crd] of content.crds.entries())
    await write(join(folder, 'crds', `${index}.yaml`), yamlOf(crd))
  return folder
}

/** Written for readers of YAML 1.1, who take a bare `yes` for true. */
function yamlOf(object: KubeObject): string {
  return stringify(object, { version: '1.1', lineWidth: 0, aliasDuplicateObjects: false })
}

async function write(path: string, content: string): Promise<void> {
  await writeFile(path, content, { mode: 0o600 })
}
