import { app as appSchema } from '@tenon/protocol'
import { beforeAll, describe, expect, it } from 'vitest'
import type { z } from 'zod'
import { folderWith } from '../testing/app-folder.ts'
import { FULL_APP } from '../testing/full-app.ts'
import { walkFields } from './check-file.ts'
import { loadApp, type LoadedApp } from './load-app.ts'
import { FILE_KINDS } from './schemas/kinds.ts'
import { parse } from 'smol-toml'

/** The reference, kind by kind: what each file may hold, in the words of its table. */
const REFERENCE: Record<string, string> = {
  metadata:
    'version description display_name slack_webhook_url readme kubernetes_context.name kubernetes_context.component label_colors onboarding.category onboarding.cloud_provider onboarding.difficulty onboarding.enabled',
  sandbox:
    'terraform_version public_repo.repo public_repo.directory public_repo.branch connected_repo.repo drift_schedule env_vars vars var_file.contents operation_roles.operation operation_roles.role max_auto_retries skip_noops auto_approve_on_policies_passing type runtime pulumi_config',
  runner: 'runner_type helm_driver init_script_url env_vars instance_type env_var.name env_var.value',
  stack:
    'name description type vpc_nested_template_url runner_nested_template_url custom_nested_stacks.name custom_nested_stacks.template_url custom_nested_stacks.index custom_nested_stacks.parameters deployment_scope',
  inputs:
    'group.name group.description group.display_name group.group input.name input.display_name input.description input.default input.required input.sensitive input.group input.type input.internal input.user_configurable input.source',
  input:
    'name display_name description default required sensitive group type internal user_configurable source',
  input_group: 'name description display_name',
  secrets:
    'secret.name secret.display_name secret.description secret.required secret.default secret.auto_generate secret.format secret.kubernetes_sync secret.kubernetes_secret_namespace secret.kubernetes_secret_name secret.kubernetes_sync_targets.key secret.kubernetes_sync_targets.name secret.kubernetes_sync_targets.namespaces secret.user_configurable',
  secret:
    'name display_name description required default auto_generate format kubernetes_sync kubernetes_secret_namespace kubernetes_secret_name user_configurable',
  permissions:
    'provision_role.name provision_role.description provision_role.display_name provision_role.permissions_boundary provision_role.policies.managed_policy_name maintenance_role.policies.contents deprovision_role.policies.name',
  permission:
    'type name description display_name cloud_platform permissions_boundary enabled_in_stack policies.name policies.contents policies.managed_policy_name policies.gcp_permissions policies.gcp_predefined_role policies.azure_actions policies.azure_built_in_roles',
  operation_roles: 'type rules.principal rules.operation rules.role',
  break_glass:
    'role.name role.description role.display_name role.permissions_boundary role.policies.name role.policies.contents role.policies.managed_policy_name role.cloud_platform role.policies.gcp_predefined_role role.policies.azure_built_in_roles role.policies.gcp_permissions',
  policies: 'policy.type policy.engine policy.name policy.contents policy.components',
  policy: 'type engine name contents components',
  'component-terraform_module': 'COMMON terraform_version vars env_vars var_file.contents REPOS',
  'component-helm_chart':
    'COMMON chart_name namespace storage_driver take_ownership values values_file.path values_file.contents helm_repo.repo_url helm_repo.chart helm_repo.version REPOS timeout public_repo.drift_schedule',
  'component-kubernetes_manifest':
    'COMMON namespace manifest kustomize.path kustomize.patches kustomize.enable_helm kustomize.load_restrictor REPOS',
  'component-docker_build': 'COMMON dockerfile target build_args env_vars REPOS',
  'component-container_image':
    'COMMON public.image_url public.tag aws_ecr.iam_role_arn aws_ecr.region aws_ecr.image_url aws_ecr.tag gcp_gar.gcp_project_id gcp_gar.region gcp_gar.image_url gcp_gar.tag gcp_gar.service_account_email gcp_gar.workload_identity_provider device',
  'component-pulumi': 'COMMON runtime pulumi_version config env_vars REPOS',
  action:
    'name timeout labels dependencies role break_glass_role enable_kube_config image triggers.type triggers.cron_schedule triggers.component_name triggers.index steps.name steps.command steps.inline_contents steps.env_vars steps.public_repo.repo steps.connected_repo.repo description label inputs.name inputs.description inputs.required steps.enable_kube_config kubernetes_context triggers.schedule egress.host egress.port',
  runbook:
    'name description readme labels dependencies input.name input.display_name input.description input.required input.type steps.name steps.type steps.component_name steps.deploy_dependents steps.tear_down_dependents steps.skip_component_deploys steps.action_name steps.command steps.inline_contents steps.env_vars steps.timeout steps.role',
  branch:
    'name REPOS install_groups.name install_groups.order install_groups.install_ids install_groups.install_names install_groups.label_selector install_groups.auto_approve_on_policies_passing install_groups.use_for_previews preview.mode preview.install_id preview.install_name preview.label_selector preview.set_statuses preview.comment post_deploy_runbooks ignore_changes_regex send_statuses_on_ignore',
  triggers:
    'rules.name rules.trigger rules.event_types rules.filters.from rules.filters.op rules.filters.path rules.filters.value rules.target.type rules.target.runbook rules.target.install',
  install:
    'name approval_option aws_account.region gcp_account.project_id gcp_account.region azure_account.location inputs component_toggles components labels',
  installs: 'REPOS',
  customer_managed:
    'runner_image_url runner_image_tag platforms.target platforms.portal_binary_url platforms.runner_binary_url',
  installer:
    'name slug apps community_url copyright_markdown demo_url description documentation_url footer_markdown github_url homepage_url logo_url post_install_markdown favicon_url og_image_url',
  kubernetes_contexts: 'kubernetes_context.name kubernetes_context.component',
}
const COMMON =
  'type name var_name labels dependencies operation_roles.operation operation_roles.role toggleable default_enabled kubernetes_context build_timeout deploy_timeout max_auto_retries skip_noops auto_approve_on_policies_passing drift_schedule health.probes.type health.probes.url health.probes.command health.probes.name health.block_deploy health.stabilization_window health.required_checks egress.host egress.port'
const REPOS =
  'public_repo.repo public_repo.directory public_repo.branch connected_repo.repo connected_repo.directory connected_repo.branch'

function describedFields(schema: z.core.$ZodType, path: string[] = [], found = new Map<string, unknown>()) {
  const def = schema._zod.def as unknown as Record<string, z.core.$ZodType> & { type: string }
  if (def['innerType']) return describedFields(def['innerType'], path, found)
  if (def['element']) return describedFields(def['element'], path, found)
  const { shape } = schema as z.ZodObject
  for (const [key, child] of Object.entries(shape ?? {})) {
    found.set([...path, key].join('.'), (child as z.ZodType).meta())
    describedFields(child, [...path, key], found)
  }
  return found
}

let loaded: LoadedApp
beforeAll(async () => {
  loaded = await loadApp(await folderWith(FULL_APP))
})

describe('every field of the reference', () => {
  it.each(Object.entries(REFERENCE))('of the kind %s is known, described and marked', (kind, listed) => {
    const fields = describedFields(FILE_KINDS.get(kind)!.schema)
    const wanted = listed.replace('COMMON', COMMON).replace('REPOS', REPOS).split(' ')
    expect(wanted.filter((field) => !fields.has(field))).toEqual([])
    for (const meta of fields.values())
      expect(meta).toMatchObject({
        description: expect.stringMatching(/\.$/),
        tenon: expect.stringMatching(/^(acts|carried|warned)$/),
      })
  })

  it('has its kind in the table above', () => {
    const ours = ['component-script', 'component-plugin']
    expect([...FILE_KINDS.keys()].toSorted()).toEqual([...Object.keys(REFERENCE), ...ours].toSorted())
  })

  it('is used by the folder of the next tests, as far as a field is not one of several choices', () => {
    const used = new Map<string, Set<string>>()
    for (const [file, text] of Object.entries(FULL_APP)) {
      if (!file.endsWith('.toml')) continue
      const value = parse(text) as never
      for (const [name, kind] of FILE_KINDS) {
        if (!kind.schema.safeParse(value).success) continue
        const seen = used.get(name) ?? new Set()
        walkFields(
          kind.schema,
          value,
          ({ path }) => void seen.add(path.filter((k) => typeof k === 'string').join('.')),
        )
        used.set(name, seen)
      }
    }
    const unused = Object.entries(REFERENCE).flatMap(([kind, listed]) => {
      const wanted = listed.replace('COMMON', COMMON).replace('REPOS', '').split(' ').filter(Boolean)
      return wanted
        .filter(
          (field) => !used.get(kind)?.has(field) && !/_repo|policies|pulumi|runtime|group\.group/.test(field),
        )
        .map((field) => `${kind}: ${field}`)
    })
    expect(unused).toEqual(['sandbox: type'])
  })
})

describe('the app that a full folder makes', () => {
  const component = (name: string) => loaded.app.components.find((c) => c.name === name)!

  it('is one that the server takes', () => {
    expect(appSchema.safeParse(loaded.app).error?.issues).toBeUndefined()
  })

  it('has its components with settings, sources and the configuration of their types', () => {
    expect(component('tf')).toEqual({
      name: 'tf',
      type: 'terraform_module',
      varName: 'v_tf',
      dependencies: ['web'],
      source: { kind: 'git', repo: 'acme/parts', ref: 'v1', directory: 'a/b' },
      config: {
        terraform_version: '1.11.3',
        vars: { region: '{{ .nuon.inputs.inputs.region }}', n: 1 },
        env_vars: { A: 'b' },
        var_file: [{ contents: 'x = "{{ .nuon.secrets.api_key }}"' }],
        secrets: ['api_key'],
        limits: { memoryBytes: 1, cpus: 0.5, pids: 2, timeoutSeconds: 3, graceSeconds: 4 },
      },
      settings: {
        labels: { tier: 'one', n: '1' },
        toggleable: true,
        defaultEnabled: false,
        buildTimeoutSeconds: 600,
        deployTimeoutSeconds: 3600,
        maxAutoRetries: 5,
        skipNoops: true,
        autoApproveOnPoliciesPassing: true,
        driftSchedule: '0 */6 * * *',
        images: ['nginx:1'],
        egress: [
          { host: 'api.example.com', port: 443 },
          { host: '*.example.org', port: 8443 },
        ],
        health: {
          probes: [
            { name: 'up', type: 'http', url: 'http://x/{{ .nuon.id }}' },
            { name: 'runs', type: 'exec', command: 'true' },
          ],
          blockDeploy: true,
          stabilizationSeconds: 30,
        },
      },
    })
    expect(component('chart').config).toMatchObject({
      values_file: [{ contents: 'a: 1' }, { contents: 'b: {{ .nuon.components.v_img.outputs.image.tag }}' }],
      helm_repo: { repo_url: 'https://example.com/charts', chart: 'c', version: '1' },
    })
    expect(component('img')).toMatchObject({
      type: 'container_image',
      config: { public: { image_url: 'nginx', tag: '1.27' } },
    })
    expect(component('own')).toMatchObject({
      type: 'plugin',
      config: { anything: { a: 1 } },
      source: { kind: 'folder' },
    })
    expect([...loaded.sources.keys()]).toEqual(['own', 'web'])
  })

  it('depends on what its templates use, by name and by var name', () => {
    expect(component('chart').dependencies).toEqual(['web', 'tf', 'img'])
  })

  it('has its inputs, groups, secrets and policies', () => {
    const { inputs, inputGroups, secrets, policies } = loaded.app
    expect(inputs).toEqual([
      {
        name: 'region',
        displayName: 'Region',
        description: 'where',
        group: 'g',
        type: 'string',
        required: true,
        sensitive: false,
        internal: false,
        userConfigurable: true,
        default: 'eu',
      },
      {
        name: 'fast',
        displayName: 'fast',
        description: '',
        group: '',
        type: 'bool',
        required: false,
        sensitive: false,
        internal: false,
        userConfigurable: true,
        default: 'true',
      },
      {
        name: 'size',
        displayName: 'size',
        description: '',
        group: 'h',
        type: 'number',
        required: false,
        sensitive: true,
        internal: true,
        userConfigurable: false,
        default: 2,
      },
    ])
    expect(inputGroups?.map((group) => group.name).toSorted()).toEqual(['g', 'h'])
    expect(secrets).toEqual([
      {
        name: 'api_key',
        displayName: 'API key',
        description: 'a key',
        required: true,
        autoGenerate: false,
        format: '',
        default: 'none',
      },
      {
        name: 'token',
        displayName: 'Token',
        description: 't',
        required: false,
        autoGenerate: true,
        format: 'base64',
        default: 'd',
        kubernetes: { namespace: 'ns', name: 'token' },
        kubernetesTargets: [{ namespace: 'a', name: 't', key: 'k' }],
      },
    ])
    expect(policies).toEqual([
      {
        name: 'k',
        type: 'kubernetes_cluster',
        engine: 'kyverno',
        contents: '{{request.object}}',
        components: [],
      },
      { name: 'all', type: 'helm_chart', engine: 'opa', contents: 'package x', components: [] },
      {
        name: 'no-public',
        type: 'terraform_module',
        engine: 'cel',
        contents: '- deny: resources.exists(r, r.type == "aws_s3_bucket_acl")',
        components: ['tf'],
      },
    ])
  })

  it('has its actions, older spellings read as what they mean', () => {
    expect(loaded.app.actions).toEqual([
      {
        name: 'backup',
        timeoutSeconds: 1800,
        dependencies: ['web'],
        labels: { label: 'aws', kind: 'db' },
        role: '{{.nuon.install.id}}-maintenance',
        enableKubeConfig: true,
        egress: [{ host: 'hooks.example.com', port: 8443 }],
        triggers: [
          { type: 'cron', cron: '*/45 * * * *' },
          { type: 'cron', cron: '0 0 * * *' },
          { type: 'pre-deploy-component', component: 'web', index: 3 },
          { type: 'post-deploy-all-components' },
        ],
        steps: [
          {
            name: 'one',
            inlineContents: '#!/bin/sh\necho hi\n',
            env: { A: '{{ .nuon.secrets.token }}', N: '1' },
          },
          {
            name: 'two',
            command: './run.sh',
            source: { kind: 'git', repo: 'acme/scripts', ref: 'main', directory: '.' },
          },
          {
            name: 'three',
            command: './run.sh',
            source: { kind: 'git', repo: 'acme/private', ref: 'main', directory: '.' },
          },
        ],
      },
    ])
  })

  it('keeps what has no place in it, by file', () => {
    const carried = loaded.app.carried!
    expect(Object.keys(carried).toSorted()).toEqual(
      [
        'actions/backup.toml',
        'branch.toml',
        'branches/next.toml',
        'break_glass.toml',
        'components/build.toml',
        'components/chart.toml',
        'components/img.toml',
        'components/manifest.toml',
        'components/pulumi.toml',
        'components/tf.toml',
        'customer_managed.toml',
        'inputs.toml',
        'inputs/size.toml',
        'installer.toml',
        'installs.toml',
        'kubernetes_contexts.toml',
        'metadata.toml',
        'operation_roles.toml',
        'permissions.toml',
        'permissions/provision.toml',
        'runbooks/all.toml',
        'runner.toml',
        'sandbox.toml',
        'secrets.toml',
        'secrets/token.toml',
        'stack.toml',
        'triggers.toml',
      ].toSorted(),
    )
    expect(carried['components/tf.toml']).toEqual({
      kubernetes_context: 'main',
      operation_roles: [{ operation: 'deploy', role: '{{.nuon.install.id}}-deploy' }],
      labels: { tier: 'one', n: 1 },
      health: { block_deploy: true, required_checks: ['smoke'] },
    })
    expect(carried['metadata.toml']).toMatchObject({
      readme: '# {{ .nuon.name }}',
      slack_webhook_url: 'https://hooks.example.com/x',
    })
    expect(carried['sandbox.toml']).toMatchObject({ var_file: [{ contents: 'a = 1' }] })
  })

  it('comes with the installs', () => {
    expect(loaded.installs.map((install) => install.name)).toEqual(['gamma', 'acme', 'beta'])
    expect(loaded.installs[1]).toEqual({
      file: 'installs/acme.toml',
      name: 'acme',
      approval: 'approve-all',
      account: { cloud: 'aws', settings: { region: 'us-east-1', iam_role_arn: 'arn' } },
      labels: { a: 'b' },
      inputs: { region: 'us', size: 3 },
      toggles: { chart: true },
      components: {
        chart: { helmValues: { a: 1 }, health: { block_deploy: true } },
        tf: { tfVars: { b: 2 } },
      },
    })
  })

  it('says which fields nothing acts on', () => {
    const idle = loaded.idle.map(({ file, field, mark }) => `${file} ${field} ${mark}`)
    expect(idle).toContain('components/tf.toml kubernetes_context carried')
    expect(idle).toContain('components/tf.toml health.required_checks carried')
    expect(idle).toContain('sandbox.toml public_repo carried')
    expect(idle.filter((line) => line.startsWith('sandbox.toml public_repo.'))).toEqual([])
    expect(idle).toContain('runner.toml env_var warned')
    expect(idle.some((line) => line.includes(' acts'))).toBe(false)
  })
})
