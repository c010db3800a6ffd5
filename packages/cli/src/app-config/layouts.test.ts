import { describe, expect, it } from 'vitest'
import { appWith, folderWith, METADATA, mistakesIn, scripts } from '../testing/app-folder.ts'
import { loadApp } from './load-app.ts'
import { formatWarning } from './problem.ts'

/** Ways in which people lay out the folder of an app. */

const chart = (name: string, contents: string) =>
  `name = "${name}"\ntype = "helm_chart"\nchart_name = "${name}"\n[[values_file]]\ncontents = "${contents}"\n[public_repo]\nrepo = "o/r"\n`
const image = (name: string) =>
  `name = "${name}"\ntype = "container_image"\n[public]\nimage_url = "nginx"\ntag = "1"\n`
const action = (name: string, contents: string) =>
  `name = "${name}"\ntimeout = "5m"\n[[triggers]]\ntype = "manual"\n[[steps]]\nname = "s"\ninline_contents = "${contents}"\n`

const load = async (files: Record<string, string>) => {
  const { app, warnings, sources, installs } = await loadApp(
    await folderWith({ 'metadata.toml': METADATA, ...files }),
  )
  return { app, sources, installs, warnings: warnings.map(formatWarning) }
}

describe('a component or action in a folder of its own', () => {
  it('has its config as nuon.toml beside its source, whose TOML files are no config', async () => {
    const { app, warnings } = await load({
      'components/api/nuon.toml': chart('api', './api/values.yaml'),
      'components/api/values.yaml': 'a: 1',
      'components/api/Cargo.toml': '[package]\nname = "api"\n',
      'components/api/site/hugo.toml': 'name = "x"\ntype = "helm_chart"\n',
      'actions/debug/nuon.toml': action('debug', './debug/script.sh'),
      'actions/debug/script.sh': 'echo hi',
      'actions/debug/pyproject.toml': '[project]\nname = "debug"\n',
    })
    expect(app.components.map(({ name }) => name)).toEqual(['api'])
    expect(app.components[0]!.config['values_file']).toEqual([{ contents: 'a: 1' }])
    expect(app.actions![0]!.steps[0]!.inlineContents).toBe('echo hi')
    expect(warnings).toEqual([])
  })

  it('resolves its paths against the top folder of its kind first', async () => {
    const { app } = await load({
      'components/api/nuon.toml': chart('api', './values/api.yaml'),
      'components/api/values/api.yaml': 'from: own folder',
      'components/values/api.yaml': 'from: top folder',
    })
    expect(app.components[0]!.config['values_file']).toEqual([{ contents: 'from: top folder' }])
  })

  it('may send that folder as its source', async () => {
    const files = {
      'components/web/nuon.toml': 'name = "web"\ntype = "script"\nsource = "."\n',
      ...scripts('components/web'),
    }
    const { sources, warnings } = await load(files)
    expect(sources.get('web')).toMatch(/components\/web$/)
    expect(warnings).toEqual([])
  })

  it('may stand deeper under any name, also several of a folder', async () => {
    const { app } = await load({
      'components/images/api.toml': image('img_api'),
      'components/images/deep/ui.toml': image('img_ui'),
      'components/images/Cargo.toml': '[package]\nname = "x"\n',
      'components/images/wrangler.toml':
        'name = "worker"\ntype = "javascript"\nmain = "x"\nzone_id = "z"\nroute = "r"\n',
      'actions/kubectl/logs/logs.toml': action('logs', './kubectl/logs/logs.sh'),
      'actions/kubectl/logs/logs.sh': 'kubectl logs',
    })
    expect(app.components.map(({ name }) => name)).toEqual(['img_api', 'img_ui'])
    expect(app.actions!.map(({ name }) => name)).toEqual(['logs'])
  })

  it('is told its mistakes, wherever it stands', async () => {
    const folder = await appWith({
      'components/images/api.toml': image('img_api').replace('container_image', 'container_imag'),
      'components/images/ui.toml': 'name = "ui\n',
      'components/chart/nuon.toml': 'type = "helm_chart"\n',
    })
    expect(await mistakesIn(folder)).toEqual([
      'components/chart/nuon.toml:1:1: name is missing; expected a string',
      'components/chart/nuon.toml:1:1: chart_name is missing; expected a string',
      'components/images/api.toml:2:1: there is no component type container_imag; expected container_image',
      'components/images/ui.toml:1:8: the text that begins here has no closing "; expected "',
    ])
  })
})

describe('inputs, groups and secrets', () => {
  it('may each have a file, in folders by group', async () => {
    const { app } = await load({
      'components/img.toml': image('img'),
      'input_groups/dns.toml': 'name = "dns"\ndisplay_name = "DNS"\ndescription = "names"\n',
      'inputs/dns/root_domain.toml': 'name = "root_domain"\ngroup = "dns"\ndescription = "d"\n',
      'inputs/app/size/count.toml': 'name = "count"\ntype = "number"\ndefault = "2"\n',
      'secrets/app/token.toml': 'name = "token"\ndescription = "t"\nauto_generate = true\n',
    })
    expect(app.inputs!.map(({ name, group }) => [name, group])).toEqual([
      ['count', ''],
      ['root_domain', 'dns'],
    ])
    expect(app.inputGroups!.map(({ name }) => name)).toEqual(['dns'])
    expect(app.secrets!.map(({ name }) => name)).toEqual(['token'])
  })
})

describe('installs', () => {
  it('may lie in install-configs beside an installs.toml that names a repository', async () => {
    const { app, installs } = await load({
      'components/img.toml': image('img'),
      'inputs.toml': '[[input]]\nname = "size"\n',
      'installs.toml': '[connected_repo]\nrepo = "o/installs"\nbranch = "main"\ndirectory = "prod"\n',
      'install-configs/eu/one.toml':
        'name = "one"\napproval_option = "prompt"\n[labels]\ntier = "a"\n[aws_account]\nregion = "eu-west-1"\n[[inputs]]\nsize = "s"\n',
    })
    expect(installs).toMatchObject([
      {
        file: 'install-configs/eu/one.toml',
        name: 'one',
        approval: 'prompt',
        labels: { tier: 'a' },
        account: { cloud: 'aws', settings: { region: 'eu-west-1' } },
        inputs: { size: 's' },
      },
    ])
    expect(app.carried?.['installs.toml']).toMatchObject({ connected_repo: { repo: 'o/installs' } })
  })
})

describe('what is there by name only', () => {
  const role = (more: string) => `type = "provision"\nname = "p"\ndescription = "d"\n${more}`

  it('warns of a bad template in a text that is only shown, and refuses it where it acts', async () => {
    const wrong = '{{nuon.install.id}} may provision'
    const { warnings } = await load({
      'components/img.toml': image('img'),
      'permissions/provision.toml': `type = "provision"\nname = "p"\ndescription = "${wrong}"\ndisplay_name = "${wrong}"\n`,
      'inputs.toml': `[[input]]\nname = "a"\ndescription = "${wrong}"\n`,
    })
    const words = 'bad template: function "nuon" not defined; expected a Go template'
    expect(warnings.map((line) => line.replace(/:\d+: bad/, ': bad'))).toEqual([
      `inputs.toml:3: ${words}`,
      `permissions/provision.toml:3: ${words}`,
      `permissions/provision.toml:4: ${words}`,
    ])
    const acting = chart('web', 'a').replace(
      'chart_name = "web"',
      'chart_name = "web"\nnamespace = "{{nuon.id}}"',
    )
    expect(await mistakesIn(await appWith({ 'components/web.toml': acting }))).toEqual([
      `components/web.toml:4:16: ${words}`,
    ])
  })

  it('warns of an input that is not there where the template says what it takes instead', async () => {
    const spare = '{{ dig \\"inputs\\" \\"issuer\\" \\"none\\" .nuon.inputs }}'
    const { warnings } = await load({ 'components/web.toml': chart('web', spare) })
    expect(warnings).toEqual([
      'components/web.toml:5:33: the template uses nuon.inputs.inputs.issuer: there is no input issuer; expected a name of one: the app has no inputs',
    ])
    const needed = '{{ .nuon.inputs.inputs.issuer }}'
    const folder = await appWith({ 'components/web.toml': chart('web', spare + needed) })
    expect(await mistakesIn(folder)).toEqual([expect.stringContaining('there is no input issuer')])
  })

  it('warns of a permissions boundary that names no file', async () => {
    const { app, warnings } = await load({
      'components/img.toml': image('img'),
      'permissions.toml':
        '[provision_role]\nname = "p"\ndescription = "d"\npermissions_boundary = "./none.json"\n',
      'permissions/custom.toml': role('permissions_boundary = "./none.json"\n'),
      'break_glass.toml': '[[role]]\nname = "b"\ndescription = "d"\npermissions_boundary = "./none.json"\n',
    })
    expect(warnings).toEqual([
      'break_glass.toml:4:1: role[0].permissions_boundary names no file: ./none.json; a role cannot be made from it',
      'permissions.toml:4:1: provision_role.permissions_boundary names no file: ./none.json; a role cannot be made from it',
      'permissions/custom.toml:4:1: permissions_boundary names no file: ./none.json; a role cannot be made from it',
    ])
    expect(app.carried?.['permissions/custom.toml']).toMatchObject({ permissions_boundary: './none.json' })
  })

  it('finds a file regardless of case, with a warning', async () => {
    const { app, warnings } = await load({
      'metadata.toml': `${METADATA}readme = "./readme.md"\n`,
      'README.md': '# Shop',
      'components/img.toml': image('img'),
    })
    expect(app.carried?.['metadata.toml']).toEqual({ readme: '# Shop' })
    expect(warnings).toEqual(['metadata.toml:4:1: readme names ./readme.md, but the file is README.md'])
  })

  it('leaves a manifest by its address to the build, and says so', async () => {
    const address = 'https://manifests.invalid/crds.yaml'
    const { app, warnings } = await load({
      'components/crds.toml': `name = "crds"\ntype = "kubernetes_manifest"\nnamespace = "n"\nmanifest = "${address}"\n`,
    })
    expect(app.components[0]!.config['manifest']).toBe(address)
    expect(warnings).toEqual([
      `components/crds.toml:4:1: manifest is fetched from ${address} when it is built, and not looked into here`,
    ])
  })
})

describe('what validate names before anything is built', () => {
  const policy = (contents: string) => ({
    'policies/p.toml': 'type = "helm_chart"\nengine = "cel"\ncontents = "./p.yaml"\n',
    'policies/p.yaml': contents,
  })

  it.each([
    ['is no YAML', '- deny: [', 'policies/p.yaml:1:10: the policy p is not YAML: '],
    ['is no list of rules', '- dney: "true"', 'policies/p.yaml:1:1: the policy p is not a list of rules: '],
    [
      'does not compile',
      '- warn: "true"\n- deny: plan.counts.delete >\n',
      'policies/p.yaml:2:9: the policy p does not compile: Unexpected token: EOF, in deny: plan.counts.delete >; expected CEL over plan, resources, images, component',
    ],
    [
      'names what no policy sees',
      '- deny: resource.size() > 0\n',
      'policies/p.yaml:1:9: the policy p does not compile: Unknown variable: resource, in deny: resource.size() > 0; expected CEL over plan, resources, images, component',
    ],
    [
      'answers no yes or no',
      '- deny: size(images)\n',
      'policies/p.yaml:1:9: the policy p gives int in deny: size(images); expected true or false',
    ],
    [
      'asks of an element without a list',
      '- deny: it.kind == "a"\n',
      'policies/p.yaml:1:9: the policy p does not compile: Unknown variable: it, in deny: it.kind == "a"; expected CEL over plan, resources, images, component',
    ],
  ])('is a policy in CEL that %s', async (_what, contents, expected) => {
    const [found, ...others] = await mistakesIn(await appWith(policy(contents)))
    expect(found).toContain(expected)
    expect(others).toEqual([])
  })

  it('is no policy that compiles', async () => {
    const contents =
      '- each: resources\n  deny: it.kind == "Pod" && has(it.spec)\n  message: \'"no " + it.metadata.name\'\n'
    expect(await mistakesIn(await appWith(policy(contents)))).toEqual([])
  })

  it('is a script folder without one of its scripts', async () => {
    const folder = await folderWith({
      'metadata.toml': METADATA,
      'components/web.toml': 'name = "web"\ntype = "script"\nsource = "src/web"\n',
      'src/web/deploy.sh': '',
    })
    const lacks = (script: string) =>
      `components/web.toml:3:1: the source has no ${script}; expected the script, even if it only says "exit 0"`
    expect(await mistakesIn(folder)).toEqual([lacks('destroy.sh'), lacks('status.sh')])
  })

  it('is each field that is kept and not acted on yet, once', async () => {
    const { kept } = await loadApp(
      await appWith({
        'components/a.toml': image('a').replace('[public]', 'kubernetes_context = "x"\n[public]'),
        'components/b.toml': chart('b', 'x').replace('chart_name', 'kubernetes_context = "x"\nchart_name'),
        'sandbox.toml': 'terraform_version = "1"\n[public_repo]\nrepo = "o/r"\n',
      }),
    )
    expect(kept().map(formatWarning)).toEqual([
      'components/a.toml:3:1: kubernetes_context is kept, but nothing acts on it yet (in 2 files)',
      'sandbox.toml:1:1: terraform_version is kept, but nothing acts on it yet',
      'sandbox.toml:2:1: public_repo is kept, but nothing acts on it yet',
    ])
  })
})
