/** A plugin without any library: one executable per operation. */
export function shellTemplate(name: string): Record<string, string> {
  const description = {
    name,
    version: '0.1.0',
    operations: ['deploy', 'destroy', 'status'],
    kind: 'shell',
    entry: 'operations',
    configSchema: { type: 'object', properties: { greeting: { type: 'string' } } },
  }
  return {
    'plugin.json': `${JSON.stringify(description, null, 2)}\n`,
    'operations/deploy': DEPLOY,
    'operations/destroy': DESTROY,
    'operations/status': STATUS,
    'README.md': README.replaceAll('NAME', name),
  }
}

/** Executable in the folder that is made. */
export const EXECUTABLE: readonly string[] = ['operations/deploy', 'operations/destroy', 'operations/status']

const DEPLOY = `#!/bin/sh
# Makes the component what its configuration says, also for the tenth time. Ends with 0 only when it works.
set -eu

# The component's own fields, templates rendered. It may hold secrets: do not print all of it.
greeting=$(sed -n 's/.*"greeting": "\\(.*\\)".*/\\1/p' "$TENON_CONFIG")
echo "deploying \${TENON_COMPONENT:-it}: \${greeting:-hello}"

# What other components and people may see of it.
printf '{"message": {"value": "%s", "sensitive": false}}' "\${greeting:-hello}" > "$TENON_OUT/outputs.json"
printf '{"message": "said %s"}' "\${greeting:-hello}" > "$TENON_OUT/result.json"
`

const DESTROY = `#!/bin/sh
# Removes it; ends with 0 also when nothing is there.
set -eu
echo "removing \${TENON_COMPONENT:-it}"
`

const STATUS = `#!/bin/sh
# Ends with 0 when it is healthy.
set -eu
echo "\${TENON_COMPONENT:-it} is well"
`

const README = `# NAME

A component type of your own. \`plugin.json\` says what it can do; \`operations/\` has one executable for each.

| variable | |
| --- | --- |
| \`TENON_CONFIG\` | file: the component's own fields as JSON, templates rendered |
| \`TENON_INPUTS\` | file: the install's inputs as JSON |
| \`TENON_SECRETS\` | folder: one file per secret |
| \`TENON_DEPENDENCIES\` | folder: NAME.json with the outputs of each dependency |
| \`TENON_OUT\` | folder: leave outputs.json and result.json here |

A component that uses it, in the app's \`components/\`:

    name = "greeting"
    type = "plugin"
    source = "../NAME"
    greeting = "hello, {{ .tenon.install.name }}"
`
