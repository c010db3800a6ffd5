import { partName } from '@tenon/protocol'
import { z } from 'zod'
import {
  acts,
  anyTable,
  carried,
  carriedRepos,
  cron,
  duration,
  egress,
  files,
  flag,
  labels,
  longText,
  names,
  operationRoles,
  optionalText,
  repo,
  scalars,
  text,
  texts,
  url,
  warned,
  whole,
} from './fields.ts'
import { customerManaged } from './parts.ts'

export const TRIGGER_TYPES = [
  'manual',
  'cron',
  'pre-deploy-component',
  'post-deploy-component',
  'pre-teardown-component',
  'post-teardown-component',
  'pre-deploy-all-components',
  'post-deploy-all-components',
  'pre-teardown-all-components',
  'post-teardown-all-components',
  'pre-provision',
  'post-provision',
  'pre-reprovision',
  'post-reprovision',
  'pre-deprovision',
  'post-deprovision',
  'pre-update-inputs',
  'post-update-inputs',
  'pre-secrets-sync',
  'post-secrets-sync',
  'role-enabled',
  'role-disabled',
] as const

export const OLDER_TRIGGERS: Readonly<Record<string, string>> = {
  'pre-component-deploy': 'pre-deploy-component',
  'post-component-deploy': 'post-deploy-component',
}

const trigger = z.strictObject({
  type: acts(z.enum([...TRIGGER_TYPES, ...Object.keys(OLDER_TRIGGERS)]), 'When it runs.', {
    older: OLDER_TRIGGERS,
  }),
  cron_schedule: acts(cron.optional(), 'For cron: when, in UTC.'),
  schedule: warned(cron.optional(), 'The older name of cron_schedule.', 'write cron_schedule'),
  component_name: acts(partName.optional(), 'For those of a component: which.'),
  index: acts(z.int().optional(), 'The place among actions of the same trigger.'),
})

const actionStep = z.strictObject({
  name: acts(z.string().min(1).max(128), 'The step’s name.'),
  command: acts(z.string().max(65_536).optional(), 'What to run, in a folder of its own.'),
  inline_contents: acts(z.string().max(262_144).optional(), 'A script, or ./a-file of the app’s folder.', {
    file: true,
  }),
  env_vars: acts(scalars, 'Environment variables.'),
  enable_kube_config: warned(flag, 'The older place of enable_kube_config.', 'write it once, for the action'),
  public_repo: acts(repo.optional(), 'A repository that anyone can read: the step runs in its directory.'),
  connected_repo: acts(repo.optional(), 'The same of one that the build agent has access to.'),
})

export const action = z.strictObject({
  name: acts(partName, 'The action’s name.'),
  description: carried(optionalText, 'What it does.', { lenient: true }),
  timeout: acts(duration('30m'), 'How long it may take.'),
  labels: carried(labels, 'Free labels.'),
  label: warned(optionalText, 'One label.', 'write labels'),
  dependencies: acts(names, 'Components that it needs.'),
  role: carried(z.string().max(255).optional(), 'The role it runs with.'),
  break_glass_role: carried(optionalText, 'The role it runs with in an emergency.'),
  enable_kube_config: acts(flag, 'Give it access to the cluster.'),
  egress: acts(egress, 'What it calls: with it it reaches nothing else outside of the install.'),
  image: carried(optionalText, 'The image it runs in.'),
  kubernetes_context: carried(optionalText, 'The cluster it is for.'),
  inputs: warned(
    z
      .array(
        z.strictObject({
          name: carried(text, 'Its name.'),
          description: carried(optionalText, 'What it is for.', { lenient: true }),
          required: carried(flag, 'It must be given.'),
          default: carried(z.unknown().optional(), 'Its default.'),
          type: carried(optionalText, 'Its type.'),
        }),
      )
      .optional(),
    'What is asked before it runs.',
    'action inputs are kept, but nothing asks for them',
  ),
  triggers: acts(z.array(trigger).max(100), 'When it runs.'),
  steps: acts(z.array(actionStep).min(1, 'must be at least one step').max(200), 'What it does, in order.'),
})

const RUNBOOK_STEPS = [
  'component_deploy',
  'component_tear_down',
  'deploy_all_components',
  'tear_down_all_components',
  'action',
  'inline_action',
  'sandbox_provision',
  'sandbox_reprovision',
  'sandbox_deprovision',
  'approval',
  'sync_secrets',
] as const

const runbookStep = z.strictObject({
  name: carried(text, 'The step’s name.'),
  type: carried(z.enum(RUNBOOK_STEPS), 'What it does.'),
  component_name: carried(partName.optional(), 'Which component.'),
  deploy_dependents: carried(flag, 'Also those that depend on it.'),
  tear_down_dependents: carried(flag, 'Also those that depend on it.'),
  skip_component_deploys: carried(flag, 'Only the sandbox.'),
  action_name: carried(partName.optional(), 'Which action.'),
  command: carried(optionalText, 'What to run.'),
  inline_contents: carried(longText.optional(), 'A script, or ./a-file.', { file: true }),
  env_vars: carried(scalars, 'Environment variables.'),
  timeout: carried(duration('1h').optional(), 'How long it may take.'),
  role: carried(optionalText, 'The role it runs with.'),
})

export const runbook = z.strictObject({
  name: carried(partName, 'The runbook’s name.'),
  description: carried(optionalText, 'What it is for.', { lenient: true }),
  readme: carried(longText.optional(), 'More about it, or ./a-file.', { file: true, lenient: true }),
  labels: carried(labels, 'Free labels.'),
  dependencies: carried(names, 'What it needs.'),
  input: carried(
    z
      .array(
        z.strictObject({
          name: carried(text, 'Its name.'),
          display_name: carried(optionalText, 'Its name for people.', { lenient: true }),
          description: carried(optionalText, 'What it is for.', { lenient: true }),
          required: carried(flag, 'It must be given.'),
          default: carried(z.unknown().optional(), 'Its default.'),
          type: carried(optionalText, 'Its type.'),
        }),
      )
      .optional(),
    'What is asked before it runs.',
  ),
  steps: carried(z.array(runbookStep).max(200), 'What it does, in order.'),
})

export const sandbox = z.strictObject({
  type: carried(z.enum(['terraform', 'pulumi']).optional(), 'What it is written in; terraform otherwise.'),
  terraform_version: carried(optionalText, 'The version of OpenTofu or Terraform.'),
  ...carriedRepos,
  drift_schedule: carried(cron.optional(), 'When to look for drift: cron, in UTC.'),
  env_vars: carried(scalars, 'Environment variables.'),
  vars: carried(anyTable, 'Variables; their strings are templates.'),
  var_file: carried(files, 'Files of variables.'),
  operation_roles: operationRoles,
  max_auto_retries: carried(whole, 'How often a failed run is tried again by itself.'),
  skip_noops: carried(flag, 'Leave out a run that changes nothing.'),
  auto_approve_on_policies_passing: carried(flag, 'Need no approval when all policies pass.'),
  runtime: carried(z.enum(['go', 'nodejs', 'python']).optional(), 'Pulumi: the language.'),
  pulumi_version: carried(optionalText, 'Pulumi: its version.'),
  pulumi_config: carried(anyTable, 'Pulumi: configuration.'),
})

export const runner = z.strictObject({
  runner_type: carried(z.enum(['aws', 'azure', 'gcp']), 'On which cloud the agent runs.'),
  helm_driver: carried(z.enum(['configmap', 'secret']).optional(), 'Where helm keeps its releases.'),
  init_script_url: carried(url.optional(), 'A script that its machine starts with.'),
  env_vars: carried(scalars, 'Environment variables.'),
  env_var: warned(
    z
      .array(z.strictObject({ name: carried(text, 'Its name.'), value: carried(text, 'Its value.') }))
      .optional(),
    'The older form of env_vars.',
    'write [env_vars]',
  ),
  instance_type: carried(optionalText, 'The kind of machine.'),
  customer_managed: carried(customerManaged.optional(), 'For customers who run everything themselves.'),
})

const installGroup = z.strictObject({
  name: carried(text, 'The group’s name.'),
  order: carried(z.int().optional(), 'Its place in the order.'),
  install_ids: carried(texts, 'Installs, by id.'),
  install_names: carried(texts, 'Installs, by name.'),
  label_selector: carried(labels, 'Installs, by labels.'),
  auto_approve_on_policies_passing: carried(flag, 'Need no approval when all policies pass.'),
  use_for_previews: carried(flag, 'Preview pull requests on it.'),
})

export const branch = z.strictObject({
  name: carried(text, 'The branch’s name.'),
  ...carriedRepos,
  install_groups: carried(z.array(installGroup).optional(), 'In which order installs follow.'),
  preview: carried(
    z
      .strictObject({
        mode: carried(z.enum(['plan-only', 'apply', 'build-only']).optional(), 'What a preview does.'),
        install_id: carried(optionalText, 'On which install, by id.'),
        install_name: carried(optionalText, 'On which install, by name.'),
        label_selector: carried(labels, 'On which installs, by labels.'),
        set_statuses: carried(flag, 'Report to the pull request.'),
        comment: carried(flag, 'Comment on the pull request.'),
      })
      .optional(),
    'What happens for a pull request.',
  ),
  post_deploy_runbooks: carried(texts, 'Runbooks afterwards.'),
  ignore_changes_regex: carried(
    z.union([text, z.array(text)]).optional(),
    'Files whose changes do not count.',
  ),
  send_statuses_on_ignore: carried(flag, 'Report also when nothing counts.'),
})

export const triggers = z.strictObject({
  rules: carried(
    z
      .array(
        z.strictObject({
          name: carried(text, 'The rule’s name.'),
          trigger: carried(text, 'What sends the events.'),
          event_types: carried(texts, 'Which events.'),
          filters: carried(
            z
              .array(
                z.strictObject({
                  from: carried(optionalText, 'What is looked at.'),
                  op: carried(optionalText, 'How it is compared.'),
                  path: carried(optionalText, 'Where in it.'),
                  value: carried(z.unknown().optional(), 'With what.'),
                }),
              )
              .optional(),
            'All of these hold.',
          ),
          target: carried(
            z
              .strictObject({
                type: carried(text, 'What is started.'),
                runbook: carried(optionalText, 'Which runbook.'),
                install: carried(optionalText, 'On which install.'),
              })
              .optional(),
            'What happens.',
          ),
        }),
      )
      .optional(),
    'What happens at which event.',
  ),
})
