import { symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { appWith, folderWith, METADATA, mistakesIn } from '../testing/app-folder.ts'
import { temporaryFolder } from '../testing/run-cli.ts'
import { loadApp } from './load-app.ts'
import { terraform, action, script } from '../testing/mistake-files.ts'

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
  ...(
    [
      ['name = "db\n', '1:8', '"'],
      ["a = ['x', 'y\n]\n", '1:11', "'"],
      ['a = "b"\nc = """d\ne = 1\n', '2:5', '"""'],
    ] as const
  ).map(([text, at, quote]): (typeof MISTAKES)[number] => [
    `a text without its closing ${quote}`,
    { 'components/db.toml': text },
    [`components/db.toml:${at}: the text that begins here has no closing ${quote}; expected ${quote}`],
  ]),
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
    'hosts that no job may call',
    {
      'components/db.toml': terraform(
        '[[egress]]\nhost = "https://x.com"\n[[egress]]\nhost = "169.254.169.254"\nport = 80\n[[egress]]\nhost = "localhost"\n[[egress]]\nport = 0\nhost = "x.com"\n',
      ),
      'actions/act.toml': action('', '[[triggers]]\ntype = "manual"\n[[egress]]\nhost = "::1"\n'),
    },
    [
      'actions/act.toml:6:1: egress[0].host has a wrong value; expected a host of the network, not the machine itself or its metadata address',
      'components/db.toml:5:1: egress[0].host has a wrong value; expected a host name, *. and a domain, or an IP address',
      'components/db.toml:7:1: egress[1].host has a wrong value; expected a host of the network, not the machine itself or its metadata address',
      'components/db.toml:10:1: egress[2].host has a wrong value; expected a host of the network, not the machine itself or its metadata address',
      'components/db.toml:12:1: egress[3].port has a wrong value; expected at least 1',
    ],
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
