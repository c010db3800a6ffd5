/** A chart with a workload, as the files of its folder. */
export function chartFiles(more: Record<string, string> = {}): Record<string, string> {
  return {
    'Chart.yaml': 'apiVersion: v2\nname: web\nversion: 1.2.3\nappVersion: 1.16\ndescription: a test\n',
    'values.yaml': 'image:\n  repository: ""\n  tag: ""\nreplicas: 1\n',
    'templates/deployment.yaml': deployment(
      '{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}',
    ),
    '.helmignore': '# comment\n*.bak\nci/\n',
    'README.bak': 'left out',
    'ci/values.yaml': 'left: out',
    ...more,
  }
}

export function deployment(image: string, name = 'web'): string {
  return `apiVersion: apps/v1
kind: Deployment
metadata:
  name: ${name}
spec:
  replicas: 1
  selector: { matchLabels: { app: ${name} } }
  template:
    metadata: { labels: { app: ${name} } }
    spec:
      containers:
        - name: main
          image: "${image}"
`
}

/** A chart that says nothing but its name and version, with one image. */
export function smallChart(name: string, version: string, image: string): Record<string, string> {
  return {
    'Chart.yaml': `apiVersion: v2\nname: ${name}\nversion: ${version}\n`,
    'templates/pod.yaml': `apiVersion: v1\nkind: Pod\nmetadata:\n  name: ${name}\nspec:\n  containers:\n    - { name: main, image: "${image}" }\n`,
  }
}
