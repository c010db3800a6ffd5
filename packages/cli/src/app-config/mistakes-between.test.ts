import { describe, expect, it } from 'vitest'
import { appWith, METADATA, mistakesIn } from '../testing/app-folder.ts'
import { repo, terraform, helm, action, script } from '../testing/mistake-files.ts'

const MISTAKES: [what: string, files: Record<string, string | Uint8Array>, lines: string[]][] = [
  [
    'no source at all',
    { 'components/db.toml': terraform().replace(repo, '') },
    [
      'components/db.toml:1:1: there is none of source, public_repo, connected_repo; expected source, public_repo or connected_repo',
    ],
  ],
  [
    'two sources',
    { 'components/db.toml': terraform('source = "src/web"\n') },
    ['components/db.toml:5:1: source and public_repo are both given; expected only one of them'],
  ],
  [
    'an image from two places',
    {
      'components/i.toml':
        'name = "i"\ntype = "container_image"\n[public]\nimage_url = "nginx"\ntag = "1"\n[aws_ecr]\niam_role_arn = "a"\nregion = "r"\nimage_url = "i"\ntag = "t"\n',
    },
    ['components/i.toml:6:1: public and aws_ecr are both given; expected only one of them'],
  ],
  [
    'a values file that says nothing',
    { 'components/app.toml': helm('[[values_file]]\n') },
    ['components/app.toml:4:1: values_file[0] has nothing; expected contents or path'],
  ],
  [
    'a probe without its address',
    { 'components/app.toml': helm('[[health.probes]]\nname = "p"\ntype = "http"\n') },
    ['components/app.toml:4:1: health.probes[0].url is missing; expected a url for type http'],
  ],
  [
    'a sandbox without its version',
    { 'sandbox.toml': repo },
    ['sandbox.toml:1:1: terraform_version is missing; expected a string'],
  ],
  [
    'a cron trigger without a schedule',
    { 'actions/a.toml': action('', '[[triggers]]\ntype = "cron"\n') },
    ['actions/a.toml:3:1: triggers[0].cron_schedule is missing; expected a cron schedule for type cron'],
  ],
  [
    'a component trigger without a component',
    { 'actions/a.toml': action('', '[[triggers]]\ntype = "pre-deploy-component"\n') },
    [
      'actions/a.toml:3:1: triggers[0].component_name is missing; expected a component for type pre-deploy-component',
    ],
  ],
  [
    'a trigger of an unknown component',
    { 'actions/a.toml': action('', '[[triggers]]\ntype = "pre-deploy-component"\ncomponent_name = "wep"\n') },
    ['actions/a.toml:5:1: triggers[0].component_name: there is no component wep; expected web'],
  ],
  [
    'a step that does nothing',
    { 'actions/a.toml': action('', undefined, '[[steps]]\nname = "s"\n') },
    ['actions/a.toml:5:1: steps[0] does nothing; expected command or inline_contents'],
  ],
  [
    'an action without steps',
    { 'actions/a.toml': action('steps = []\n', undefined, '') },
    ['actions/a.toml:3:1: steps has a wrong value; expected at least one step'],
  ],
  [
    'a runbook step of an unknown action',
    { 'runbooks/r.toml': 'name = "r"\n[[steps]]\nname = "s"\ntype = "action"\naction_name = "nope"\n' },
    [
      'runbooks/r.toml:5:1: steps[0].action_name: there is no action nope; expected one that the app has: it has no actions',
    ],
  ],
  [
    'a default of another type',
    { 'inputs/n.toml': 'name = "n"\ntype = "number"\ndefault = "many"\n' },
    ['inputs/n.toml:3:1: default has a wrong value; expected a number'],
  ],
  [
    'an input that both sides set',
    { 'inputs/n.toml': 'name = "n"\ninternal = true\nuser_configurable = true\n' },
    [
      'inputs/n.toml:2:1: internal and user_configurable are both true; expected one of them: the vendor or the customer sets it',
    ],
  ],
  [
    'a synced secret without its place',
    { 'secrets/s.toml': 'name = "s"\nkubernetes_sync = true\nkubernetes_secret_name = "s"\n' },
    [
      'secrets/s.toml:1:1: kubernetes_secret_namespace is missing; expected a string, with kubernetes_sync = true',
    ],
  ],
  [
    'an input that is named twice',
    { 'inputs.toml': '[[input]]\nname = "a"\n[[input]]\nname = "a"\n' },
    ['inputs.toml:4:1: another input is named a; expected a name of its own'],
  ],
  [
    'an unknown dependency',
    { 'components/a.toml': script('a', 'dependencies = ["web", "wed"]\n') },
    ['components/a.toml:4:24: there is no component wed; expected web'],
  ],
  [
    'a component that is named twice',
    { 'components/web2.toml': script('web', '') },
    ['components/web2.toml:1:1: another component is named web; expected a name of its own'],
  ],
  [
    'a cycle',
    {
      'components/a.toml': script('a', 'dependencies = ["b"]\n'),
      'components/b.toml': script('b', 'dependencies = ["a"]\n'),
    },
    ['components/a.toml:4:1: the components depend on each other: a → b → a; expected no cycle'],
  ],
  [
    'a cycle through templates',
    {
      'components/a.toml': script('a', '[env]\nx = "{{ .nuon.components.b.outputs.x }}"\n'),
      'components/b.toml': script('b', 'dependencies = ["a"]\n'),
    },
    ['components/a.toml:1:1: the components depend on each other: a → b → a; expected no cycle'],
  ],
  [
    'a template that does not parse',
    { 'components/a.toml': script('a', '[env]\nx = "ab {{ .nuon.id "\n') },
    ['components/a.toml:5:21: bad template: unclosed action; expected a Go template'],
  ],
  [
    'a template that does not parse, lines down in a string',
    { 'components/app.toml': helm('[[values_file]]\ncontents = """\na: 1\n  b: {{ brew 1 }}\n"""\n') },
    ['components/app.toml:7:9: bad template: function "brew" not defined; expected a Go template'],
  ],
  [
    'a template that does not parse, in a file',
    {
      'components/app.toml': helm('[[values_file]]\ncontents = "./values.yaml"\n'),
      'components/values.yaml': 'a: 1\nb: {{ end }}\n',
    },
    ['components/values.yaml:2:11: bad template: unexpected {{end}}; expected a Go template'],
  ],
  [
    'a template that uses an unknown component',
    { 'components/a.toml': script('a', '[env]\nx = "{{ .nuon.components.wep.outputs.url }}"\n') },
    [
      'components/a.toml:5:26: the template uses nuon.components.wep.outputs.url: there is no component wep; expected web',
    ],
  ],
  [
    'a template that uses an unknown input',
    {
      'inputs.toml': '[[input]]\nname = "region"\n',
      'components/a.toml': script('a', '[env]\nx = "{{ .nuon.inputs.inputs.regoin }}"\n'),
    },
    [
      'components/a.toml:5:29: the template uses nuon.inputs.inputs.regoin: there is no input regoin; expected region',
    ],
  ],
  [
    'a template that uses an input of an app without any',
    { 'components/a.toml': script('a', '[env]\nx = "{{ .nuon.install.inputs.q }}"\n') },
    [
      'components/a.toml:5:30: the template uses nuon.install.inputs.q: there is no input q; expected a name of one: the app has no inputs',
    ],
  ],
  [
    'a template that uses an unknown secret',
    {
      'secrets.toml': '[[secret]]\nname = "api_key"\n',
      'components/a.toml': script('a', '[env]\nx = "{{ index .tenon.secrets "api_kee" }}"\n')
        .replace('"{{', "'{{")
        .replace('}}"', "}}'"),
    },
    [
      'components/a.toml:5:31: the template uses tenon.secrets.api_kee: there is no secret api_kee; expected api_key',
    ],
  ],
  [
    'a file that is not there',
    { 'metadata.toml': `${METADATA}readme = "./README.md"\n` },
    [
      'metadata.toml:4:1: readme names no file: ./README.md; expected text, or a file of the app’s folder such as ./values.yaml',
    ],
  ],
  [
    'a file outside of the folder',
    { 'metadata.toml': `${METADATA}readme = "../../../etc/hostname"\n` },
    [
      'metadata.toml:4:1: readme lies outside of the app’s folder; expected text, or a file of the app’s folder such as ./values.yaml',
    ],
  ],
  [
    'a file elsewhere on the net',
    { 'components/app.toml': helm('[[values_file]]\ncontents = "http://127.0.0.1:1/v.yaml"\n') },
    [
      'components/app.toml:5:1: values_file[0].contents cannot be had from http://127.0.0.1:1/v.yaml: bad port; expected text, or a file of the app’s folder such as ./values.yaml',
    ],
  ],
  [
    'a source that is not there',
    { 'components/a.toml': 'name = "a"\ntype = "script"\nsource = "../nowhere"\n' },
    ['components/a.toml:3:1: source names no folder: ../nowhere; expected a folder such as src/web'],
  ],
]

describe('a mistake between the fields and files of an app config', () => {
  it.each(MISTAKES)(
    'that is %s is told with its place and what was expected',
    async (_what, files, lines) => {
      expect(await mistakesIn(await appWith(files))).toEqual(lines)
    },
  )
})
