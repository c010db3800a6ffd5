import { partName } from '@tenon/protocol'
import { z } from 'zod'
import {
  carried,
  carriedRepos,
  flag,
  labels,
  longText,
  optionalText,
  scalars,
  text,
  texts,
} from './fields.ts'

const rolePolicy = z.strictObject({
  name: carried(optionalText, 'The policy’s name.'),
  contents: carried(longText.optional(), 'The policy as JSON, or ./a-file.', { file: true }),
  managed_policy_name: carried(optionalText, 'AWS: a managed policy.'),
  gcp_permissions: carried(texts, 'Google Cloud: permissions.'),
  gcp_predefined_role: carried(optionalText, 'Google Cloud: a predefined role.'),
  azure_actions: carried(texts, 'Azure: actions.'),
  azure_built_in_roles: carried(texts, 'Azure: built-in roles.'),
})

const roleFields = {
  name: carried(text, 'The role’s name.'),
  description: carried(text, 'What it is for.', { lenient: true }),
  display_name: carried(optionalText, 'Its name for people.', { lenient: true }),
  cloud_platform: carried(z.enum(['aws', 'azure', 'gcp']).optional(), 'For which cloud.'),
  permissions_boundary: carried(longText.optional(), 'The most it may do, as JSON, or ./a-file.', {
    file: true,
    mayMiss: true,
  }),
  enabled_in_stack: carried(flag, 'Made with the stack.'),
  policies: carried(z.array(rolePolicy).optional(), 'What it may do.'),
}
const role = z.strictObject(roleFields)

export const permission = z.strictObject({
  type: carried(
    z.enum(['provision', 'maintenance', 'deprovision', 'custom', 'break_glass']).optional(),
    'What it is used for; from its file’s name otherwise.',
  ),
  ...roleFields,
})

export const permissions = z.strictObject({
  provision_role: carried(role.optional(), 'For provisioning.'),
  maintenance_role: carried(role.optional(), 'For everything in between.'),
  deprovision_role: carried(role.optional(), 'For deprovisioning.'),
  custom_roles: carried(z.array(role).optional(), 'For operations that name them.'),
})

export const breakGlass = z.strictObject({
  role: carried(z.array(role).optional(), 'Roles for emergencies.'),
})

const PRINCIPAL = /^nuon::(sandbox|(component|action):(\*|[a-z0-9_-]+))$/

export const operationRolesFile = z.strictObject({
  type: carried(z.literal('matrix'), 'The form of the rules.'),
  rules: carried(
    z
      .array(
        z.strictObject({
          principal: carried(
            z
              .string()
              .regex(
                PRINCIPAL,
                'must be nuon::sandbox, nuon::component:<name or *> or nuon::action:<name or *>',
              ),
            'Who.',
          ),
          operation: carried(
            z.enum(['provision', 'reprovision', 'deprovision', 'deploy', 'teardown', 'trigger']),
            'Does what.',
          ),
          role: carried(text, 'With which role.'),
        }),
      )
      .optional(),
    'Which role does what.',
  ),
})

const componentOverrides = z.strictObject({
  helm_values: carried(
    z.union([longText, z.record(z.string(), z.unknown())]).optional(),
    'Values over the chart’s.',
  ),
  tf_vars: carried(
    z.union([longText, z.record(z.string(), z.unknown())]).optional(),
    'Variables over the module’s.',
  ),
  health: carried(z.record(z.string(), z.unknown()).optional(), 'How to tell that it works here.'),
})

const inputValues = z.record(z.string(), z.unknown())

export const install = z.strictObject({
  name: carried(text, 'The install’s name.'),
  approval_option: carried(z.enum(['approve-all', 'prompt']).optional(), 'Whether a person approves.'),
  labels: carried(labels, 'Free labels.'),
  aws_account: carried(
    z
      .strictObject({
        region: carried(optionalText, 'Its region.'),
        iam_role_arn: carried(optionalText, 'Its role.'),
      })
      .optional(),
    'The customer’s AWS account.',
  ),
  gcp_account: carried(
    z
      .strictObject({
        project_id: carried(optionalText, 'Its project.'),
        region: carried(optionalText, 'Its region.'),
      })
      .optional(),
    'The customer’s Google Cloud project.',
  ),
  azure_account: carried(
    z
      .strictObject({
        location: carried(optionalText, 'Its location.'),
        subscription_id: carried(optionalText, 'Its subscription.'),
        tenant_id: carried(optionalText, 'Its tenant.'),
        resource_group: carried(optionalText, 'Its resource group.'),
      })
      .optional(),
    'The customer’s Azure subscription.',
  ),
  inputs: carried(
    z.union([z.array(inputValues), inputValues]).optional(),
    'Values of inputs, as one table or several.',
  ),
  component_toggles: carried(
    z.record(z.string(), z.boolean()).optional(),
    'Components that are on or off here.',
  ),
  components: carried(
    z.record(partName, componentOverrides).optional(),
    'What is other here, per component.',
  ),
  env_vars: carried(scalars, 'Environment variables.'),
})

export const installs = z.strictObject(carriedRepos)
