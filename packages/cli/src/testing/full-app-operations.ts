import { repoTable as repo } from './app-folder.ts'

/** What is done with the app of `full-app.ts`: actions, runbooks, branches, installs. */
export const FULL_OPERATIONS: Record<string, string> = {
  'actions/backup.toml': `name = "backup"
description = "Backs up {{"
timeout = "30m"
labels = { kind = "db" }
label = "aws"
dependencies = ["web"]
role = "{{.nuon.install.id}}-maintenance"
break_glass_role = "b"
enable_kube_config = true
image = "alpine:3"
kubernetes_context = "main"
[[inputs]]
name = "target"
description = "where to"
required = true
default = "s3"
type = "string"
[[triggers]]
type = "cron"
cron_schedule = "*/45 * * * *"
[[triggers]]
type = "cron"
schedule = "0 0 * * *"
[[triggers]]
type = "pre-component-deploy"
component_name = "web"
index = 3
[[triggers]]
type = "post-deploy-all-components"
[[steps]]
name = "one"
inline_contents = "./backup.sh"
enable_kube_config = true
env_vars = { A = "{{ .nuon.secrets.token }}", N = 1 }
[[steps]]
name = "two"
command = "./run.sh"
[steps.public_repo]
repo = "acme/scripts"
directory = "."
branch = "main"
[[steps]]
name = "three"
command = "./run.sh"
[steps.connected_repo]
repo = "acme/private"
[[egress]]
host = "hooks.example.com"
port = 8443
`,
  'actions/backup.sh': '#!/bin/sh\necho hi\n',
  'runbooks/all.toml': `name = "all"
description = "d"
readme = "./all.md"
labels = { a = "b" }
dependencies = ["web"]
[[input]]
name = "n"
display_name = "N"
description = "d"
required = true
default = "x"
type = "string"
[[steps]]
name = "a"
type = "component_deploy"
component_name = "web"
deploy_dependents = true
[[steps]]
name = "b"
type = "component_tear_down"
component_name = "web"
tear_down_dependents = true
[[steps]]
name = "c"
type = "action"
action_name = "backup"
role = "r"
timeout = "5m"
env_vars = { A = "{{ .nuon.inputs.inputs.n }}" }
[[steps]]
name = "d"
type = "sandbox_reprovision"
skip_component_deploys = true
[[steps]]
name = "e"
type = "inline_action"
command = "x"
inline_contents = "y"
`,
  'runbooks/all.md': '# all',
  'branch.toml': `name = "main"\n${repo('public_repo')}`,
  'branches/next.toml': `name = "next"
post_deploy_runbooks = ["all"]
ignore_changes_regex = ".*\\\\.md"
send_statuses_on_ignore = true
${repo('connected_repo')}
[[install_groups]]
name = "g"
order = 1
install_ids = ["i"]
install_names = ["n"]
label_selector = { a = "b" }
auto_approve_on_policies_passing = true
use_for_previews = true
[preview]
mode = "plan-only"
install_id = "i"
install_name = "n"
label_selector = { a = "b" }
set_statuses = true
comment = true
`,
  'triggers.toml': `[[rules]]
name = "r"
trigger = "github"
event_types = ["push"]
[[rules.filters]]
from = "body"
op = "eq"
path = "ref"
value = "main"
[rules.target]
type = "runbook"
runbook = "all"
install = "acme"
`,
  'installs.toml': repo('connected_repo'),
  'installs/acme.toml': `name = "acme"
approval_option = "approve-all"
labels = { a = "b" }
[aws_account]
region = "us-east-1"
iam_role_arn = "arn"
[[inputs]]
region = "us"
[[inputs]]
size = 3
[component_toggles]
chart = true
[components.chart]
helm_values = { a = 1 }
health = { block_deploy = true }
[components.tf]
tf_vars = { b = 2 }
`,
  'installs/beta.toml':
    'name = "beta"\napproval_option = "prompt"\n[gcp_account]\nproject_id = "p"\nregion = "r"\n[inputs]\nregion = "x"\n',
  'install-configs/gamma.toml':
    'name = "gamma"\n[azure_account]\nlocation = "l"\nsubscription_id = "s"\ntenant_id = "t"\nresource_group = "g"\n',
  'installer.toml': `name = "i"
slug = "s"
description = "d"
documentation_url = "u"
community_url = "u"
homepage_url = "u"
github_url = "u"
demo_url = "u"
logo_url = "u"
favicon_url = "u"
og_image_url = "u"
copyright_markdown = "m"
footer_markdown = "m"
post_install_markdown = "m"
apps = ["full"]
`,
}
