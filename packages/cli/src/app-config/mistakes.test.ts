import { symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { appWith, folderWith, METADATA, mistakesIn } from '../testing/app-folder.ts'
import { temporaryFolder } from '../testing/run-cli.ts'
import { loadApp } from './load-app.ts'

const repo = '[public_repo]\nrepo = "o/r"\ndirectory = "."\nbranch = "main"\n'
const terraform = (more = '') =>
  `name = "db"\ntype = "terraform_module"\nterraform_version = "1.11.3"\n${more}${repo}`
const helm = (more = '') => `name = "app"\ntype = "helm_chart"\nchart_name = "app"\n${more}${repo}`
const action = (
  more = '',
  triggers = '[[triggers]]\ntype = "manual"\n',
  steps = '[[steps]]\nname = "s"\ncommand = "./x"\n',
) => `name = "act"\ntimeout = "5m"\n${more}${triggers}${steps}`
const script = (name: string, more: string) =>
  `name = "${name}"\ntype = "script"\nsource = "src/web"\n${more}`

const MISTAKES: [what: string, files: Record<string, string | Uint8Array>, lines: string[]][] = [
  [
    'an unknown file',
    { 'metdata.toml': '' },
    ['metdata.toml:1:1: there is no file metdata.toml in an app; expected metadata.toml'],
  ],
  [
    'an unknown file that is like nothing',
    { 'pyproject.toml': '' },
    [
      'pyproject.toml:1:1: there is no file pyproject.toml in an app; expected one of metadata, sandbox, runner, stack, inputs, secrets, permissions, operation_roles, break_glass, policies, branch, triggers, installs, installer, customer_managed, kubernetes_contexts',
    ],
  ],
  [
    'a file that belongs in a folder',
    { 'action.toml': '' },
    ['action.toml:1:1: there is no file action.toml in an app; expected a file in actions/'],
  ],
  [
    'a folder with a mistyped name',
    { 'componets/x.toml': '' },
    ['componets/x.toml:1:1: there is no folder componets in an app; expected the folder components'],
  ],
  [
    'text that is no TOML',
    { 'components/db.toml': 'name = "db"\ntype =\n' },
    ['components/db.toml:2:7: invalid value; expected valid TOML'],
  ],
  [
    'a file that is not UTF-8',
    { 'sandbox.toml': new Uint8Array([0x61, 0xff]) },
    ['sandbox.toml:1:1: the file is not UTF-8 text; expected a file in UTF-8'],
  ],
  [
    'a file that is too large',
    { 'sandbox.toml': '#'.repeat(1_100_000) },
    ['sandbox.toml:1:1: the file is too large; expected at most 1 MB'],
  ],
  [
    'a number that is none',
    { 'components/db.toml': terraform('vars = { a = nan }\n') },
    ['components/db.toml:4:10: vars.a has a wrong value; expected a finite number'],
  ],
  [
    'an unknown field',
    { 'components/db.toml': terraform('max_auto_retrys = 5\n') },
    [
      'components/db.toml:4:1: there is no field max_auto_retrys in a terraform_module component; expected max_auto_retries',
    ],
  ],
  [
    'an unknown field that is like nothing',
    { 'policies/p.toml': 'type = "sandbox"\ncontents = ""\nqqqqqqqq = 1\n' },
    [
      'policies/p.toml:3:1: there is no field qqqqqqqq in a policy; expected one of name, type, engine, contents, components',
    ],
  ],
  [
    'an unknown nested field',
    { 'components/db.toml': terraform().replace('branch', 'brunch') },
    [
      'components/db.toml:7:1: there is no field public_repo.brunch in a terraform_module component; expected branch',
    ],
  ],
  [
    'an unknown field in a list of tables',
    { 'actions/a.toml': action().replace('command', 'comand') },
    ['actions/a.toml:7:1: there is no field steps[0].comand in an action; expected command'],
  ],
  [
    'a missing field',
    { 'components/db.toml': terraform().replace('terraform_version', '# ') },
    ['components/db.toml:1:1: terraform_version is missing; expected a string'],
  ],
  [
    'a missing field of a table',
    { 'components/db.toml': terraform().replace('repo = "o/r"', '') },
    ['components/db.toml:4:1: public_repo.repo is missing; expected a string'],
  ],
  [
    'a missing type',
    { 'components/db.toml': 'name = "db"\n' },
    [
      'components/db.toml:1:1: type is missing; expected one of terraform_module, helm_chart, kubernetes_manifest, docker_build, container_image, pulumi, script, plugin',
    ],
  ],
  [
    'an unknown component type',
    { 'components/db.toml': 'name = "db"\ntype = "terraform_modul"\n' },
    ['components/db.toml:2:1: there is no component type terraform_modul; expected terraform_module'],
  ],
  [
    'a type that is begun',
    { 'components/db.toml': 'name = "db"\ntype = "helm"\n' },
    ['components/db.toml:2:1: there is no component type helm; expected helm_chart'],
  ],
  [
    'a job component',
    { 'components/j.toml': 'name = "j"\ntype = "job"\n' },
    [
      'components/j.toml:2:1: job components are no longer supported, please use an action; expected an action in actions/',
    ],
  ],
  [
    'text in place of a list',
    { 'components/db.toml': terraform('dependencies = "web"\n') },
    ['components/db.toml:4:1: dependencies has a wrong value; expected a list'],
  ],
  [
    'text in place of a number',
    { 'components/db.toml': terraform('max_auto_retries = "5"\n') },
    ['components/db.toml:4:1: max_auto_retries has a wrong value; expected a number'],
  ],
  [
    'a fraction in place of a whole number',
    { 'components/db.toml': terraform('max_auto_retries = 1.5\n') },
    ['components/db.toml:4:1: max_auto_retries has a wrong value; expected a whole number'],
  ],
  [
    'a number that is too big',
    { 'components/db.toml': terraform('max_auto_retries = 50\n') },
    ['components/db.toml:4:1: max_auto_retries has a wrong value; expected at most 20'],
  ],
  [
    'text in place of true or false',
    { 'components/db.toml': terraform('skip_noops = "yes"\n') },
    ['components/db.toml:4:1: skip_noops has a wrong value; expected true or false'],
  ],
  [
    'text in place of a table',
    { 'components/db.toml': terraform('vars = "x"\n') },
    ['components/db.toml:4:1: vars has a wrong value; expected a table'],
  ],
  [
    'a value outside of a small set',
    { 'runner.toml': 'runner_type = "ibm"\n' },
    ['runner.toml:1:1: runner_type has a wrong value; expected "aws", "azure" or "gcp"'],
  ],
  [
    'a value outside of a large set',
    { 'actions/a.toml': action('', '[[triggers]]\ntype = "post-deploy-componet"\n') },
    ['actions/a.toml:4:1: triggers[0].type has a wrong value; expected "post-deploy-component"'],
  ],
  [
    'a name with other characters',
    { 'components/db.toml': terraform().replace('"db"', '"My DB"') },
    [
      'components/db.toml:1:1: name has a wrong value; expected 1 to 63 of a-z, 0-9, - and _, starting and ending with a letter or digit',
    ],
  ],
  [
    'a var name with other characters',
    { 'components/db.toml': terraform('var_name = "a-b"\n') },
    [
      'components/db.toml:4:1: var_name has a wrong value; expected 1 to 63 letters, digits and _, starting with a letter',
    ],
  ],
  [
    'a duration without a unit',
    { 'components/db.toml': terraform('deploy_timeout = "15"\n') },
    ['components/db.toml:4:1: deploy_timeout has a wrong value; expected a duration such as 15m, at most 1h'],
  ],
  [
    'a deploy timeout past an hour',
    { 'components/db.toml': terraform('deploy_timeout = "1h1s"\n') },
    ['components/db.toml:4:1: deploy_timeout has a wrong value; expected a duration such as 15m, at most 1h'],
  ],
  [
    'an action timeout past half an hour',
    { 'actions/a.toml': action().replace('5m', '31m') },
    ['actions/a.toml:2:1: timeout has a wrong value; expected a duration such as 15m, at most 30m'],
  ],
  [
    'a cron schedule that is none',
    { 'components/db.toml': terraform('drift_schedule = "61 * * * *"\n') },
    [
      'components/db.toml:4:1: drift_schedule has a wrong value; expected a cron schedule of five parts such as 0 */6 * * * (in UTC)',
    ],
  ],
  [
    'an address that is none',
    { 'runner.toml': 'runner_type = "aws"\ninit_script_url = "init.sh"\n' },
    [
      'runner.toml:2:1: init_script_url has a wrong value; expected an address that starts with http:// or https://',
    ],
  ],
  [
    'a principal of another form',
    {
      'operation_roles.toml':
        'type = "matrix"\n[[rules]]\nprincipal = "web"\noperation = "deploy"\nrole = "r"\n',
    },
    [
      'operation_roles.toml:3:1: rules[0].principal has a wrong value; expected nuon::sandbox, nuon::component:<name or *> or nuon::action:<name or *>',
    ],
  ],
  [
    'an operation that does not fit its principal',
    {
      'operation_roles.toml':
        'type = "matrix"\n[[rules]]\nprincipal = "nuon::sandbox"\noperation = "deploy"\nrole = "r"\n',
    },
    [
      'operation_roles.toml:4:1: rules[0].operation does not fit sandbox; expected provision, reprovision, deprovision',
    ],
  ],
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
    { 'components/app.toml': helm('[[values_file]]\ncontents = "https://example.com/v.yaml"\n') },
    [
      'components/app.toml:5:1: values_file[0].contents names https://example.com/v.yaml, which is not fetched; expected text, or a file of the app’s folder such as ./values.yaml',
    ],
  ],
  [
    'a source that is not there',
    { 'components/a.toml': 'name = "a"\ntype = "script"\nsource = "../nowhere"\n' },
    ['components/a.toml:3:1: source names no folder: ../nowhere; expected a folder such as src/web'],
  ],
]

describe('a mistake in an app config', () => {
  it.each(MISTAKES)(
    'that is %s is told with its place and what was expected',
    async (_what, files, lines) => {
      expect(await mistakesIn(await appWith(files))).toEqual(lines)
    },
  )

  it('comes with all the others, of all files at once', async () => {
    const lines = await mistakesIn(
      await folderWith({
        'metadata.toml': 'display_name = 7\n',
        'components/a.toml': '# a comment\nname = "A B"\ntype = "helm"\n  dependencies = "db"\n',
        'components/b.toml': 'name = "b"\ntype = \n',
        'components/c.toml': 'name = "c"\ntype = "script"\nsource = "../nowhere"\n',
      }),
    )
    expect(lines).toEqual([
      'components/a.toml:2:1: name has a wrong value; expected 1 to 63 of a-z, 0-9, - and _, starting and ending with a letter or digit',
      'components/a.toml:3:1: there is no component type helm; expected helm_chart',
      'components/a.toml:4:3: dependencies has a wrong value; expected a list',
      'components/b.toml:2:8: invalid value; expected valid TOML',
      'components/c.toml:3:1: source names no folder: ../nowhere; expected a folder such as src/web',
      'metadata.toml:1:1: version is missing; expected a string',
      'metadata.toml:1:1: display_name has a wrong value; expected a string',
    ])
  })

  it('includes what is missing altogether', async () => {
    expect(await mistakesIn(await folderWith({ 'src/x': '' }))).toEqual([
      'components:1:1: there is no component; expected at least one file such as components/web.toml',
      'metadata.toml:1:1: the file is missing; expected a file with version, display_name and description',
    ])
  })

  it('does not make others of it: a component with mistakes still exists for those that use it', async () => {
    const folder = await appWith({
      'components/a.toml': script(
        'a',
        'dependencies = ["db"]\n[env]\nx = "{{ .nuon.components.db.outputs.y }}"\n',
      ),
      'components/db.toml': 'name = "db"\ntype = "nothing-like-it-exists"\n',
    })
    expect(await mistakesIn(folder)).toHaveLength(1)
  })

  it('includes a source, and a file behind a link, outside of the app’s own folder', async () => {
    const elsewhere = await temporaryFolder()
    const folder = await appWith({
      'components/a.toml': `name = "a"\ntype = "script"\nsource = "${elsewhere}"\n`,
      'metadata.toml': `${METADATA}readme = "./link"\n`,
    })
    await symlink('/etc/hostname', join(folder, 'link'))
    expect(await mistakesIn(folder)).toEqual([
      expect.stringMatching(
        /^components\/a\.toml:3:1: source lies outside of .+; expected a folder of the same repository$/,
      ),
      expect.stringMatching(/^metadata\.toml:4:1: readme lies outside of the app’s folder; /),
    ])
  })

  it('is an error of its own for those who only want the app', async () => {
    const folder = await appWith({ 'metdata.toml': '' })
    await expect(loadApp(folder)).rejects.toMatchObject({
      message: `the app config in ${folder} has one mistake`,
      lines: ['metdata.toml:1:1: there is no file metdata.toml in an app; expected metadata.toml'],
      exitCode: 2,
    })
  })
})
