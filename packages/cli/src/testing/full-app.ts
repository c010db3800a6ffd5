import { repoTable as repo, scripts } from './app-folder.ts'
import { FULL_OPERATIONS } from './full-app-operations.ts'

/** A folder that uses every file kind and every field of the format, with what each field holds. */

const common = `var_name = "VAR"
labels = { tier = "one", n = 1 }
dependencies = ["web"]
toggleable = true
default_enabled = false
kubernetes_context = "main"
build_timeout = "10m"
deploy_timeout = "1h"
max_auto_retries = 5
skip_noops = true
auto_approve_on_policies_passing = true
drift_schedule = "0 */6 * * *"
images = ["nginx:1"]
secrets = ["api_key"]
limits = { memoryBytes = 1, cpus = 0.5, pids = 2, timeoutSeconds = 3, graceSeconds = 4 }
`
const commonTables = `[[operation_roles]]
operation = "deploy"
role = "{{.nuon.install.id}}-deploy"
[[egress]]
host = "api.example.com"
[[egress]]
host = "*.example.org"
port = 8443
[health]
block_deploy = true
stabilization_window = "30s"
required_checks = ["smoke"]
[[health.probes]]
name = "up"
type = "http"
url = "http://x/{{ .nuon.id }}"
[[health.probes]]
name = "runs"
type = "exec"
command = "true"
`
const component = (name: string, type: string, fields: string, tables: string): string =>
  `name = "${name}"\ntype = "${type}"\n${common.replace('VAR', `v_${name}`)}${fields}${commonTables}${tables}`

export const FULL_APP: Record<string, string> = {
  'metadata.toml': `version = "v2"
name = "full"
display_name = "Full"
description = "Everything {{ as it is"
readme = "./README.md"
slack_webhook_url = "https://hooks.example.com/x"
label_colors = { tier = "red" }
[[kubernetes_context]]
name = "main"
component = "tf"
[onboarding]
enabled = true
category = "demo"
difficulty = "simple"
cloud_provider = "aws"
[customer_managed]
runner_image_url = "u"
runner_image_tag = "t"
[[customer_managed.platforms]]
target = "linux-amd64"
portal_binary_url = "p"
runner_binary_url = "r"
`,
  'README.md': '# {{ .nuon.name }}',
  'sandbox.toml': `terraform_version = "1.11.3"
drift_schedule = "0 0 * * *"
env_vars = { A = "1" }
vars = { cluster = "{{ .nuon.install.id }}" }
max_auto_retries = 1
skip_noops = true
auto_approve_on_policies_passing = true
[[var_file]]
contents = "./sandbox.tfvars"
[[operation_roles]]
operation = "provision"
role = "r"
${repo('public_repo')}`,
  'sandbox.tfvars': 'a = 1',
  'runner.toml': `runner_type = "aws"
helm_driver = "configmap"
init_script_url = "https://example.com/init.sh"
instance_type = "t3a.xlarge"
[env_vars]
A = "1"
[[env_var]]
name = "B"
value = "2"
[customer_managed]
runner_image_url = "u"
runner_image_tag = "t"
`,
  'customer_managed.toml':
    'runner_image_url = "u"\nrunner_image_tag = "t"\n[[platforms]]\ntarget = "t"\nportal_binary_url = "p"\nrunner_binary_url = "r"\n',
  'kubernetes_contexts.toml': '[[kubernetes_context]]\nname = "other"\ncomponent = "tf"\n',
  'stack.toml': `name = "stack"
description = "d"
type = "aws-cloudformation"
vpc_nested_template_url = "https://example.com/vpc.yaml"
runner_nested_template_url = "https://example.com/runner.yaml"
deployment_scope = "subscription"
[[custom_nested_stacks]]
name = "n"
template_url = "https://example.com/n.yaml"
index = 1
parameters = { P = "{{ .nuon.inputs.inputs.region }}" }
`,
  'inputs.toml': `[[group]]
name = "g"
display_name = "G"
description = "a group"
[[input]]
name = "region"
display_name = "Region"
description = "where"
default = "eu"
required = true
sensitive = false
group = "g"
type = "string"
internal = false
user_configurable = true
source = "customer"
`,
  'inputs/flags.toml': '[[input]]\nname = "fast"\ntype = "bool"\ndefault = "true"\n',
  'inputs/size.toml':
    'name = "size"\ntype = "number"\ngroup = "h"\ndefault = 2\nsource = "vendor"\nsensitive = true\nrequired = false\ninternal = true\nuser_configurable = false\n',
  'input_groups/h.toml': 'name = "h"\ndisplay_name = "H"\ndescription = "h"\n',
  'secrets.toml': `[[secret]]
name = "api_key"
display_name = "API key"
description = "a key"
required = true
default = "none"
auto_generate = false
format = ""
kubernetes_sync = false
kubernetes_secret_namespace = "ns"
kubernetes_secret_name = "n"
user_configurable = true
[[secret.kubernetes_sync_targets]]
name = "t"
key = "k"
namespaces = ["a"]
`,
  'secrets/token.toml': `name = "token"
display_name = "Token"
description = "t"
auto_generate = true
required = false
default = "d"
format = "base64"
kubernetes_sync = true
kubernetes_secret_namespace = "ns"
kubernetes_secret_name = "token"
user_configurable = false
[[kubernetes_sync_targets]]
name = "t"
key = "k"
namespaces = ["a"]
`,
  'permissions.toml': `[provision_role]
name = "{{.nuon.install.id}}-provision"
description = "d"
display_name = "D"
permissions_boundary = "{}"
[[provision_role.policies]]
managed_policy_name = "AdministratorAccess"
[maintenance_role]
name = "m"
description = "d"
[deprovision_role]
name = "x"
description = "d"
`,
  'permissions/provision.toml': `type = "provision"
name = "p"
description = "d"
display_name = "D"
cloud_platform = "gcp"
permissions_boundary = "./boundary.json"
enabled_in_stack = true
[[policies]]
name = "n"
contents = "{}"
managed_policy_name = "M"
gcp_permissions = ["a"]
gcp_predefined_role = "r"
azure_actions = ["b"]
azure_built_in_roles = ["c"]
`,
  'permissions/boundary.json': '{"boundary":true}',
  'operation_roles.toml': `type = "matrix"
[[rules]]
principal = "nuon::component:web"
operation = "deploy"
role = "r"
[[rules]]
principal = "nuon::sandbox"
operation = "reprovision"
role = "r"
[[rules]]
principal = "nuon::action:*"
operation = "trigger"
role = "r"
`,
  'break_glass.toml': `[[role]]
name = "b"
description = "d"
display_name = "D"
permissions_boundary = "{}"
cloud_platform = "aws"
[[role.policies]]
name = "n"
contents = "{}"
managed_policy_name = "m"
`,
  'policies.toml':
    '[[policy]]\ntype = "kubernetes_cluster"\nengine = "kyverno"\nname = "k"\ncontents = "{{request.object}}"\ncomponents = []\n',
  'policies/no-public.toml':
    'name = "no-public"\ntype = "terraform_module"\nengine = "cel"\ncontents = "./no-public.cel"\ncomponents = ["tf"]\n',
  'policies/no-public.cel': '- deny: resources.exists(r, r.type == "aws_s3_bucket_acl")',
  'policies/all.toml': 'type = "helm_chart"\ncontents = "package x"\ncomponents = ["*"]\n',
  'components/web.toml': 'name = "web"\ntype = "script"\nsource = "../src/web"\n[settings]\nport = 8080\n',
  ...scripts('src/web'),
  'components/own.toml': 'name = "own"\ntype = "plugin"\nsource = "src/web"\nanything = { a = 1 }\n',
  'components/tf.toml': component(
    'tf',
    'terraform_module',
    'terraform_version = "1.11.3"\nvars = { region = "{{ .nuon.inputs.inputs.region }}", n = 1 }\nenv_vars = { A = "b" }\n',
    `[[var_file]]\ncontents = "./tf.tfvars"\n${repo('public_repo')}`,
  ),
  'components/tf.tfvars': 'x = "{{ .nuon.secrets.api_key }}"',
  'components/chart.toml': component(
    'chart',
    'helm_chart',
    'chart_name = "c"\nnamespace = "ns"\nstorage_driver = "configmap"\ntake_ownership = true\ntimeout = "15m"\nvalues = { url = "{{ .nuon.components.tf.outputs.url }}" }\n',
    `[[values_file]]\ncontents = "a: 1"\n[[values_file]]\npath = "./values/c.yaml"\n[helm_repo]\nrepo_url = "https://example.com/charts"\nchart = "c"\nversion = "1"\n`,
  ),
  'components/values/c.yaml': 'b: {{ .nuon.components.v_img.outputs.image.tag }}',
  'components/chart-repo.toml': `name = "chart_repo"\ntype = "helm_chart"\nchart_name = "c"\n${repo('connected_repo')}`,
  'components/manifest.toml': component(
    'manifest',
    'kubernetes_manifest',
    'namespace = "ns"\nmanifest = "./m.yaml"\n',
    '',
  ),
  'components/m.yaml': 'kind: ConfigMap',
  'components/kustom.toml': `name = "kustom"\ntype = "kubernetes_manifest"\nnamespace = "ns"\n[kustomize]\npath = "overlays/a"\npatches = ["p"]\nenable_helm = true\nload_restrictor = "none"\n${repo('public_repo')}`,
  'components/build.toml': component(
    'build',
    'docker_build',
    'dockerfile = "Dockerfile"\ntarget = "t"\nbuild_args = { A = "1" }\nenv_vars = { B = "2" }\nbasic = { replicas = 2, port = 80, health_path = "/", namespace = "n", command = ["x"], env_vars = { C = "3" } }\n',
    repo('public_repo'),
  ),
  'components/img.toml': component(
    'img',
    'external_image',
    'device = "cpu"\n',
    '[public]\nimage_url = "nginx"\ntag = "1.27"\n',
  ),
  'components/ecr.toml':
    'name = "ecr"\ntype = "container_image"\n[aws_ecr]\niam_role_arn = "arn"\nregion = "r"\nimage_url = "i"\ntag = "t"\n',
  'components/gar.toml':
    'name = "gar"\ntype = "container_image"\n[gcp_gar]\ngcp_project_id = "p"\nregion = "r"\nimage_url = "i"\ntag = "t"\nservice_account_email = "e"\nworkload_identity_provider = "w"\n',
  'components/pulumi.toml': component(
    'pulumi',
    'pulumi',
    'runtime = "go"\npulumi_version = "3"\nconfig = { a = "1" }\nenv_vars = { B = "2" }\n',
    repo('public_repo'),
  ),
  ...FULL_OPERATIONS,
}
