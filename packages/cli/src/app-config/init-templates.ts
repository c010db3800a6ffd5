const metadata = (displayName: string, description: string): string =>
  `version = "v2"\ndisplay_name = "${displayName}"\ndescription = "${description}"\n`

const SCRIPT = (name: string): string => `name = "${name}"\ntype = "script"\nsource = "../src/${name}"\n`

const minimal = {
  'metadata.toml': metadata('My app', 'One component that does nothing yet.'),
  'components/app.toml': SCRIPT('app'),
  'src/app/deploy.sh': `#!/bin/sh\nset -eu\nprintf '{"greeting": {"value": "hello", "sensitive": false}}\\n' > "$TENON_OUT/outputs.json"\n`,
  'src/app/destroy.sh': '#!/bin/sh\nexit 0\n',
  'src/app/status.sh': '#!/bin/sh\nexit 0\n',
}

const hello = {
  'metadata.toml': metadata('Hello', 'One small web service that shows a note.'),
  'components/api.toml': `${SCRIPT('api')}secrets = ["note"]\n`,
  'secrets.toml':
    '[[secret]]\nname = "note"\ndisplay_name = "Note"\ndescription = "What the service tells the length of."\nrequired = true\n',
  'src/api/deploy.sh': `#!/bin/sh
set -eu
result=$(tenon-host service apply api --health / --file "note=$TENON_SECRETS/note" --bundle app -- node server.mjs)
printf '{"url": {"value": "%s", "sensitive": false}}\\n' "\${result##*url=}" > "$TENON_OUT/outputs.json"
`,
  'src/api/destroy.sh': '#!/bin/sh\nexec tenon-host service remove api\n',
  'src/api/status.sh': '#!/bin/sh\nexec tenon-host service status api\n',
  'src/api/app/server.mjs': `import { createServer } from 'node:http'
import { readFileSync } from 'node:fs'

const note = readFileSync(\`\${process.env.TENON_FILES}/note\`, 'utf8')
createServer((_request, response) => response.end(\`\${note.length} characters\\n\`)).listen(
  Number(process.env.PORT),
  '127.0.0.1',
)
`,
}

const kubernetes = {
  'metadata.toml': metadata('Web', 'A web server on Kubernetes.'),
  'inputs.toml': `[[group]]
name = "web"
display_name = "Web"
description = "The web server."

[[input]]
name = "replicas"
display_name = "Replicas"
description = "How many run."
group = "web"
type = "number"
default = 2
`,
  'components/image.toml':
    '# container_image\nname = "image"\ntype = "container_image"\n\n[public]\nimage_url = "docker.io/library/nginx"\ntag = "1.27-alpine"\n',
  'components/web.toml': `# kubernetes_manifest
name = "web"
type = "kubernetes_manifest"
namespace = "web"
dependencies = ["image"]
manifest = "./web.yaml"
`,
  'components/web.yaml': `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: {{ .nuon.inputs.inputs.replicas }}
  selector:
    matchLabels: { app: web }
  template:
    metadata:
      labels: { app: web }
    spec:
      containers:
        - name: web
          image: {{ .nuon.components.image.outputs.image }}
          ports: [{ containerPort: 80 }]
---
apiVersion: v1
kind: Service
metadata:
  name: web
spec:
  selector: { app: web }
  ports: [{ port: 80 }]
`,
}

/** What `tenon init` begins an app with, file by file. */
export const INIT_TEMPLATES = { hello, minimal, kubernetes } as const
export type InitTemplate = keyof typeof INIT_TEMPLATES

/** The app is named after its folder: two apps begun alike must not become versions of one. */
export function initFiles(template: InitTemplate, folder: string): Record<string, string> {
  const words = folder.replace(/[^A-Za-z0-9]+/g, ' ').trim()
  if (words === '') return INIT_TEMPLATES[template]
  const named = `display_name = "${words[0]!.toUpperCase()}${words.slice(1)}"`
  const text = INIT_TEMPLATES[template]['metadata.toml'].replace(/^display_name = .*$/m, named)
  return { ...INIT_TEMPLATES[template], 'metadata.toml': text }
}
