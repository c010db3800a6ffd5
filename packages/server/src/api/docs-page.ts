/** The parts of an OpenAPI document that the page shows. */
export interface ApiDescription {
  info: { title: string; version: string; description?: string }
  paths: Record<string, Record<string, Operation>>
}

interface Operation {
  operationId?: string
  summary?: string
  tags?: string[]
  parameters?: { name: string; in: string; required?: boolean; schema?: unknown }[]
  requestBody?: { content?: Record<string, { schema?: unknown }> }
  responses?: Record<string, { description?: string; content?: Record<string, { schema?: unknown }> }>
}

/** A page that needs no script and asks nobody else for anything. */
export function renderDocs(api: ApiDescription): string {
  const operations = Object.entries(api.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
  )
  const tags = [...new Set(operations.map(({ operation }) => operation.tags?.[0] ?? 'other'))]
  const sections = tags.map((tag) => {
    const inTag = operations.filter(({ operation }) => (operation.tags?.[0] ?? 'other') === tag)
    return `<section id="${text(tag)}"><h2>${text(tag)}</h2>${inTag.map(renderOperation).join('')}</section>`
  })
  const links = tags.map((tag) => `<li><a href="#${text(tag)}">${text(tag)}</a></li>`)
  const { title, version, description = '' } = api.info
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${text(title)} API</title>
<link rel="stylesheet" href="/docs/style.css">
</head>
<body>
<nav aria-label="Sections"><ul>${links.join('')}</ul></nav>
<main>
<h1>${text(title)} API <small>${text(version)}</small></h1>
<p>${text(description)}</p>
<p>As OpenAPI 3.1: <a href="/openapi.json">/openapi.json</a></p>
${sections.join('\n')}
</main>
</body>
</html>
`
}

function renderOperation({
  path,
  method,
  operation,
}: {
  path: string
  method: string
  operation: Operation
}): string {
  const id = text(operation.operationId ?? `${method} ${path}`)
  const parts = [
    ...(operation.parameters ?? []).map(
      (p) => `<dt><code>${text(p.name)}</code> (${text(p.in)})</dt><dd>${schemaText(p.schema)}</dd>`,
    ),
    ...Object.entries(operation.requestBody?.content ?? {}).map(
      ([type, { schema }]) => `<dt>body, ${text(type)}</dt><dd>${schemaText(schema)}</dd>`,
    ),
    ...Object.entries(operation.responses ?? {}).flatMap(([status, { content = {} }]) =>
      Object.values(content).map(
        ({ schema }) => `<dt>answer ${text(status)}</dt><dd>${schemaText(schema)}</dd>`,
      ),
    ),
  ]
  return `<details id="${id}"><summary><b class="${text(method)}">${text(method.toUpperCase())}</b> <code>${text(path)}</code> <span>${text(operation.summary ?? '')}</span></summary><dl>${parts.join('')}</dl></details>`
}

function schemaText(schema: unknown): string {
  return `<pre>${text(JSON.stringify(schema ?? {}, undefined, 2))}</pre>`
}

function text(value: string): string {
  return value
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}

export const docsStyle = `
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { display: grid; grid-template-columns: 12rem minmax(0, 60rem); gap: 2rem; margin: 2rem; }
nav ul { position: sticky; top: 2rem; list-style: none; padding: 0; margin: 0; }
h1 small { font-weight: normal; opacity: 0.7; }
h2 { text-transform: capitalize; }
details { border-top: 1px solid color-mix(in srgb, currentColor 20%, transparent); padding: 0.4rem 0; }
summary { cursor: pointer; }
summary b { display: inline-block; min-width: 4.5rem; }
summary span { opacity: 0.8; margin-left: 0.5rem; }
pre { overflow: auto; max-height: 24rem; font-size: 0.85rem; margin: 0.2rem 0 0.8rem; }
dd { margin: 0; }
@media (max-width: 50rem) { body { display: block; margin: 1rem; } nav ul { position: static; } }
`
