import { INPUT_TYPES } from '@tenon/core'
import { name, partName } from '@tenon/protocol'
import { z } from 'zod'
import { acts, carried, flag, longText, optionalText, scalar, text, texts, url, warned } from './fields.ts'

const kubernetesContext = carried(
  z
    .array(
      z.strictObject({
        name: carried(text, 'The context’s name.'),
        component: carried(optionalText, 'The component whose outputs describe the cluster.'),
      }),
    )
    .optional(),
  'Clusters besides the sandbox’s.',
)

const platform = z.strictObject({
  target: carried(text, 'Operating system and processor.'),
  portal_binary_url: carried(text, 'Where the portal’s program is.'),
  runner_binary_url: carried(text, 'Where the agent’s program is.'),
})

export const customerManaged = z.strictObject({
  runner_image_url: carried(text, 'The agent’s image.'),
  runner_image_tag: carried(text, 'Its tag.'),
  platforms: carried(z.array(platform).optional(), 'Programs per platform.'),
})

export const metadata = z.strictObject({
  version: acts(text, 'The version of this format, such as v2.'),
  name: acts(name.optional(), 'The app’s name; from display_name otherwise.'),
  display_name: acts(z.string().max(200).optional(), 'The app’s name for people.', { lenient: true }),
  description: acts(z.string().max(4000).optional(), 'What it is.', { lenient: true }),
  readme: carried(longText.optional(), 'What an install’s page shows, or ./README.md.', {
    file: true,
    lenient: true,
  }),
  slack_webhook_url: carried(optionalText, 'Where to send notifications.'),
  kubernetes_context: kubernetesContext,
  label_colors: carried(z.record(z.string(), text).optional(), 'Colours of labels.'),
  onboarding: carried(
    z
      .strictObject({
        enabled: carried(flag, 'Offer it to newcomers.'),
        category: carried(optionalText, 'Its group.'),
        difficulty: carried(optionalText, 'How hard it is.'),
        cloud_provider: carried(optionalText, 'For which cloud.'),
      })
      .optional(),
    'How it is offered to newcomers.',
  ),
  customer_managed: carried(customerManaged.optional(), 'For customers who run everything themselves.'),
})

export const kubernetesContexts = z.strictObject({ kubernetes_context: kubernetesContext })

const inputFields = {
  name: acts(partName, 'The input’s name: .nuon.inputs.inputs.<name>.'),
  display_name: acts(z.string().max(4000).optional(), 'Its name for people.', { lenient: true }),
  description: acts(z.string().max(4000).optional(), 'What it is for.', { lenient: true }),
  default: acts(z.unknown().optional(), 'What counts while nothing is set.'),
  required: acts(flag, 'An install must have it.'),
  sensitive: acts(flag, 'Its value is sealed to the install and never reaches the server.'),
  group: acts(z.string().max(128).optional(), 'The group it is shown in.'),
  type: acts(z.enum(INPUT_TYPES).optional(), 'What its value is; string otherwise.'),
  internal: carried(flag, 'Set by the vendor alone.'),
  user_configurable: carried(flag, 'Set by the customer.'),
  source: carried(
    z.enum(['customer', 'vendor']).optional(),
    'Who sets it: the same as user_configurable or internal.',
  ),
}
export const input = z.strictObject(inputFields)

const groupFields = {
  name: acts(z.string().min(1).max(128), 'The group’s name.'),
  display_name: acts(z.string().max(4000).optional(), 'Its name for people.', { lenient: true }),
  description: acts(z.string().max(4000).optional(), 'What belongs to it.', { lenient: true }),
}
export const inputGroup = z.strictObject(groupFields)

export const inputs = z.strictObject({
  group: acts(
    z
      .array(
        z.strictObject({
          ...groupFields,
          group: warned(optionalText, 'Not a field of a group.', 'groups have no group; leave it out'),
        }),
      )
      .optional(),
    'Groups of inputs.',
  ),
  input: acts(z.array(input).optional(), 'Inputs.'),
})

const syncTarget = z.strictObject({
  name: acts(text, 'The Kubernetes secret.'),
  key: acts(optionalText, 'The key in it; value otherwise.'),
  namespaces: acts(texts, 'In which namespaces; that of kubernetes_secret_namespace, or default, otherwise.'),
})

export const secret = z.strictObject({
  name: acts(partName, 'The secret’s name: .nuon.secrets.<name>.'),
  display_name: acts(z.string().max(4000).optional(), 'Its name for people.', { lenient: true }),
  description: acts(z.string().max(4000).optional(), 'What it is for.', { lenient: true }),
  required: acts(flag, 'An install must have it.'),
  default: acts(scalar.optional(), 'What counts while nothing is set.'),
  auto_generate: acts(flag, 'Made in the install when nothing is set.'),
  format: acts(
    z.enum(['base64', '']).optional(),
    'base64: what is made is base64, and a Kubernetes secret gets what the value decodes to.',
  ),
  kubernetes_sync: acts(flag, 'Kept as a Kubernetes secret too, under the key value.'),
  kubernetes_secret_namespace: acts(optionalText, 'Its namespace.'),
  kubernetes_secret_name: acts(optionalText, 'Its name.'),
  kubernetes_sync_targets: acts(z.array(syncTarget).optional(), 'More places to keep it.'),
  user_configurable: carried(flag, 'Set by the customer.'),
})

export const secrets = z.strictObject({ secret: acts(z.array(secret).optional(), 'Secrets.') })

const POLICY_TYPES = [
  'kubernetes_cluster',
  'terraform_module',
  'helm_chart',
  'kubernetes_manifest',
  'container_image',
  'pulumi',
  'sandbox',
  'docker_build',
] as const

const NOT_EVALUATED = 'only cel is evaluated for now'

export const policy = z.strictObject({
  name: acts(z.string().min(1).max(128).optional(), 'The policy’s name; from its file otherwise.'),
  type: acts(z.enum(POLICY_TYPES), 'What it looks at.'),
  engine: acts(
    z.enum(['cel', 'opa', 'kyverno']).optional(),
    'The language: cel is evaluated in the install; opa and kyverno are kept.',
    { idleValues: { opa: NOT_EVALUATED, kyverno: NOT_EVALUATED } },
  ),
  contents: acts(z.string().max(262_144), 'The policy, or ./a-file of the app’s folder.', {
    file: true,
    plain: true,
  }),
  components: acts(texts, 'Only these components; all of the type otherwise.'),
})

export const policies = z.strictObject({ policy: acts(z.array(policy).optional(), 'Policies.') })

const OLD_INSTALLER = 'installer.toml is kept, but nothing shows it'
const INSTALLER_TEXTS = [
  'name',
  'slug',
  'description',
  'documentation_url',
  'community_url',
  'homepage_url',
  'github_url',
  'demo_url',
  'logo_url',
  'favicon_url',
  'og_image_url',
  'copyright_markdown',
  'footer_markdown',
  'post_install_markdown',
] as const

export const installer = z.strictObject({
  ...Object.fromEntries(
    INSTALLER_TEXTS.map((field) => [
      field,
      warned(optionalText, 'Branding of the old installer page.', OLD_INSTALLER),
    ]),
  ),
  apps: warned(texts, 'Its apps.', OLD_INSTALLER),
})

export const stack = z.strictObject({
  name: carried(text, 'The stack’s name.'),
  description: carried(text, 'What it is.', { lenient: true }),
  type: carried(
    z.enum(['aws-cloudformation', 'azure-bicep', 'gcp-terraform']).optional(),
    'What the customer runs.',
  ),
  vpc_nested_template_url: carried(url.optional(), 'The template of the network.'),
  runner_nested_template_url: carried(url.optional(), 'The template of the agent.'),
  custom_nested_stacks: carried(
    z
      .array(
        z.strictObject({
          name: carried(text, 'Its name.'),
          template_url: carried(text, 'Its template.'),
          index: carried(z.int().optional(), 'Its place in the order.'),
          parameters: carried(z.record(z.string(), z.unknown()).optional(), 'Its parameters.'),
        }),
      )
      .optional(),
    'Stacks of yours.',
  ),
  deployment_scope: carried(optionalText, 'Azure: where it is deployed.'),
})
