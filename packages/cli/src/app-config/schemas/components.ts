import { partName } from '@tenon/protocol'
import { z } from 'zod'
import {
  acts,
  anyTable,
  carried,
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
  repos,
  scalars,
  text,
  texts,
  varName,
} from './fields.ts'

const probe = z.strictObject({
  name: acts(z.string().min(1).max(128), 'Names the probe.'),
  type: acts(z.enum(['http', 'tcp', 'exec']), 'How it asks.'),
  url: acts(z.string().max(2000).optional(), 'For http and tcp: what to connect to.'),
  command: acts(
    z.string().max(10_000).optional(),
    'For exec: what to run; it is healthy when it ends with 0.',
  ),
})

const health = z.strictObject({
  probes: acts(z.array(probe).max(50).optional(), 'What is asked after a deploy and then regularly.'),
  block_deploy: carried(flag, 'Whether an unhealthy component fails its deploy; for now it always does.'),
  stabilization_window: acts(duration('1h', '30s').optional(), 'How long it must stay healthy.'),
  required_checks: carried(texts, 'Checks from elsewhere that must pass.'),
})

/** What every component may say. */
export const common = {
  name: acts(partName, 'The component’s name, unique in the app.'),
  var_name: acts(varName.optional(), 'Another name for templates: .nuon.components.<var_name>.'),
  labels: carried(labels, 'Free labels.'),
  dependencies: acts(names, 'Components that are deployed before this one.'),
  operation_roles: operationRoles,
  toggleable: acts(flag, 'An install may switch it off.'),
  default_enabled: acts(flag, 'What counts while an install does not say.'),
  kubernetes_context: carried(optionalText, 'The cluster it is for, by a name of kubernetes_context.'),
  build_timeout: acts(duration('1h').optional(), 'How long a build may take.'),
  deploy_timeout: acts(duration('1h').optional(), 'How long a deploy may take.'),
  max_auto_retries: acts(
    z.int().min(0).max(20).optional(),
    'How often a failed deploy is tried again by itself.',
  ),
  skip_noops: acts(flag, 'Leave out a deploy that changes nothing while what runs is healthy.'),
  auto_approve_on_policies_passing: acts(flag, 'Need no approval when all policies pass.'),
  drift_schedule: acts(cron.optional(), 'When to look for drift: cron, in UTC.'),
  health: acts(health.optional(), 'How to tell that it works.'),
  images: acts(
    z.array(z.string().max(500)).max(500).optional(),
    'Images that it uses without naming them where a build sees it.',
  ),
  limits: acts(
    z
      .strictObject({
        memoryBytes: acts(z.number().positive().optional(), 'Memory.'),
        cpus: acts(z.number().positive().optional(), 'Processors.'),
        pids: acts(z.number().positive().optional(), 'Processes.'),
        timeoutSeconds: acts(z.number().positive().optional(), 'Time.'),
        graceSeconds: acts(z.number().positive().optional(), 'Time to end after being asked to.'),
      })
      .optional(),
    'What its jobs may use.',
  ),
  secrets: acts(names, 'Secrets that its jobs may read.'),
  egress: acts(egress, 'What its jobs call: with it they reach nothing else outside of the install.'),
}

const type = <T extends string>(value: T, older?: string) =>
  older === undefined
    ? acts(z.literal(value), 'The type of the component.')
    : acts(z.enum([value, older]), 'The type of the component.', { older: { [older]: value } })

/** A folder beside the config; ours. */
const SOURCE = 'A folder, relative to this file or to the app’s folder.'
const source = acts(z.string().min(1).max(1000).optional(), SOURCE)
const timeout = acts(duration('1h').optional(), 'The same as deploy_timeout.')
const envVars = acts(scalars, 'Environment variables.')
const vars = acts(anyTable, 'Variables; their strings are templates.')

const image = {
  image_url: acts(text, 'The image, without its tag.'),
  tag: acts(text, 'The tag.'),
}

const service = z.strictObject({
  replicas: acts(z.int().min(0).max(1000).optional(), 'How many run.'),
  port: acts(z.int().min(1).max(65_535).optional(), 'The port it listens on.'),
  health_path: acts(z.string().max(1000).optional(), 'An HTTP path that answers when it works.'),
  namespace: acts(optionalText, 'The Kubernetes namespace.'),
  env_vars: envVars,
  command: acts(texts, 'Instead of the image’s own command.'),
})
const basic = acts(service.optional(), 'Run the image as a service.')

export const COMPONENT_TYPES = {
  terraform_module: z.strictObject({
    ...common,
    type: type('terraform_module'),
    terraform_version: acts(text, 'The version of OpenTofu or Terraform.'),
    vars,
    env_vars: envVars,
    var_file: acts(files, 'Files of variables.'),
    source,
    ...repos,
  }),
  helm_chart: z.strictObject({
    ...common,
    type: type('helm_chart'),
    chart_name: acts(text, 'The name of the release.'),
    namespace: acts(optionalText, 'The namespace; made when it is not there.'),
    storage_driver: acts(z.enum(['configmap', 'secret']).optional(), 'Where helm keeps its releases.'),
    take_ownership: acts(flag, 'Take over what exists already.'),
    values: acts(anyTable, 'Values; their strings are templates.'),
    values_file: acts(
      z
        .array(
          z.strictObject({
            contents: acts(longText.optional(), 'The text, or ./a-file of the app’s folder.', { file: true }),
            path: acts(optionalText, 'A file of the app’s folder.', { file: true }),
          }),
        )
        .optional(),
      'Files of values, later ones over earlier ones.',
    ),
    helm_repo: acts(
      z
        .strictObject({
          repo_url: acts(text, 'The repository: https://… or oci://….'),
          chart: acts(text, 'The chart in it.'),
          version: acts(optionalText, 'The chart’s version; the newest otherwise.'),
        })
        .optional(),
      'A chart from a chart repository.',
    ),
    timeout,
    source,
    ...repos,
  }),
  kubernetes_manifest: z.strictObject({
    ...common,
    type: type('kubernetes_manifest'),
    namespace: acts(text, 'The namespace of what names none.'),
    manifest: acts(longText.optional(), 'The manifests, ./a-file of the app’s folder, or an address.', {
      file: true,
      atBuild: true,
    }),
    kustomize: acts(
      z
        .strictObject({
          path: acts(text, 'The folder of the kustomization.'),
          patches: acts(texts, 'Patches over it.'),
          enable_helm: acts(flag, 'Let it inflate charts.'),
          load_restrictor: acts(optionalText, 'Which files it may read.'),
        })
        .optional(),
      'A kustomization.',
    ),
    source,
    ...repos,
  }),
  docker_build: z.strictObject({
    ...common,
    type: type('docker_build'),
    dockerfile: acts(optionalText, 'The Dockerfile in the source.'),
    target: acts(optionalText, 'The stage to build.'),
    build_args: acts(z.union([scalars.unwrap(), z.array(text)]).optional(), 'Arguments of the build.'),
    env_vars: carried(scalars, 'Environment variables of the build; build_args act.'),
    basic,
    source,
    ...repos,
  }),
  container_image: z.strictObject({
    ...common,
    type: type('container_image', 'external_image'),
    public: acts(z.strictObject(image).optional(), 'An image that anyone can pull.'),
    aws_ecr: acts(
      z
        .strictObject({
          iam_role_arn: acts(text, 'The role that may pull.'),
          region: acts(text, 'The registry’s region.'),
          ...image,
        })
        .optional(),
      'An image in Amazon ECR.',
    ),
    gcp_gar: acts(
      z
        .strictObject({
          gcp_project_id: carried(text, 'The project; image_url names the registry.'),
          region: carried(text, 'The registry’s region; image_url names the registry.'),
          ...image,
          service_account_email: carried(optionalText, 'The account that may pull.'),
          workload_identity_provider: carried(optionalText, 'The provider to get that account by.'),
        })
        .optional(),
      'An image in Google Artifact Registry.',
    ),
    device: carried(optionalText, 'Free.'),
    basic,
  }),
  pulumi: z.strictObject({
    ...common,
    type: type('pulumi'),
    runtime: carried(z.enum(['go', 'nodejs', 'python']), 'The language.'),
    pulumi_version: carried(optionalText, 'The version of Pulumi.'),
    config: carried(anyTable, 'Configuration.'),
    env_vars: carried(scalars, 'Environment variables.'),
    source,
    ...repos,
  }),
  script: z
    .object({ ...common, type: type('script'), source: acts(z.string().min(1).max(1000), SOURCE) })
    .catchall(z.unknown()),
  plugin: z
    .object({
      ...common,
      type: type('plugin'),
      source,
      ...repos,
    })
    .catchall(z.unknown()),
} as const

export type ComponentType = keyof typeof COMPONENT_TYPES

export const JOB_MESSAGE = 'job components are no longer supported, please use an action'
export const OLDER_TYPES: Readonly<Record<string, ComponentType>> = { external_image: 'container_image' }
