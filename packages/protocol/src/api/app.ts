import { EGRESS_HOST, INPUT_TYPES, isEgressHost, type App } from '@tenon/core'
import { z } from 'zod'
import { handingOn, json, jsonObject, name, partName, text } from '../scalars.ts'

const seconds = z.int().positive().max(86_400)
const labels = z.record(z.string().max(128), z.string().max(1000))
const words = text(4000)

export const componentSource = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('folder') }),
  z.strictObject({
    kind: z.literal('git'),
    repo: z.string().min(1).max(1000),
    ref: z.string().max(255),
    directory: z.string().max(1000),
  }),
])

const probe = {
  name: z.string().max(128),
  type: z.enum(['http', 'tcp', 'exec']),
  url: z.string().max(2000).exactOptional(),
  command: z.string().max(10_000).exactOptional(),
}
const MAX_PROBES = 50
const ofHealth = {
  blockDeploy: z.boolean(),
  stabilizationSeconds: z.int().nonnegative().max(3600),
}

/** What a person writes may not have a field too many; what a server signed may. */
const componentHealth = z.strictObject({
  probes: z.array(z.strictObject(probe)).max(MAX_PROBES),
  ...ofHealth,
})
export const signedHealth = handingOn({ probes: z.array(handingOn(probe)).max(MAX_PROBES), ...ofHealth })

const egress = z
  .array(
    z.strictObject({
      host: z.string().max(253).refine(isEgressHost, `must be ${EGRESS_HOST}`),
      port: z.int().min(1).max(65_535),
    }),
  )
  .max(100)

const settings = z.strictObject({
  labels: labels.exactOptional(),
  toggleable: z.boolean().exactOptional(),
  defaultEnabled: z.boolean().exactOptional(),
  buildTimeoutSeconds: seconds.exactOptional(),
  deployTimeoutSeconds: seconds.exactOptional(),
  maxAutoRetries: z.int().nonnegative().max(20).exactOptional(),
  skipNoops: z.boolean().exactOptional(),
  autoApproveOnPoliciesPassing: z.boolean().exactOptional(),
  driftSchedule: z.string().max(200).exactOptional(),
  images: z.array(z.string().max(500)).max(500).exactOptional(),
  egress: egress.exactOptional(),
  health: componentHealth.exactOptional(),
})

const component = z.strictObject({
  name: partName,
  type: z.string().min(1).max(40),
  dependencies: z.array(partName).max(200),
  config: jsonObject,
  varName: z.string().max(63).exactOptional(),
  source: componentSource.exactOptional(),
  settings: settings.exactOptional(),
})

const input = z.strictObject({
  name: partName,
  displayName: words,
  description: words,
  group: z.string().max(128),
  type: z.enum(INPUT_TYPES),
  required: z.boolean(),
  sensitive: z.boolean(),
  internal: z.boolean(),
  userConfigurable: z.boolean(),
  default: json.exactOptional(),
})

/** Templates, so longer than what Kubernetes takes. */
const kubernetesPlace = { namespace: z.string().min(1).max(1000), name: z.string().min(1).max(1000) }

const secret = z.strictObject({
  name: partName,
  displayName: words,
  description: words,
  required: z.boolean(),
  autoGenerate: z.boolean(),
  format: z.enum(['base64', '']),
  default: z.string().max(100_000).exactOptional(),
  kubernetes: z.strictObject(kubernetesPlace).exactOptional(),
  kubernetesTargets: z
    .array(z.strictObject({ ...kubernetesPlace, key: z.string().min(1).max(253) }))
    .max(200)
    .exactOptional(),
})

const policy = z.strictObject({
  name: z.string().min(1).max(128),
  type: z.string().max(64),
  engine: z.enum(['cel', 'opa', 'kyverno']),
  contents: z.string().max(262_144),
  components: z.array(partName).max(1000),
})

const action = z.strictObject({
  name: partName,
  timeoutSeconds: seconds,
  dependencies: z.array(partName).max(200),
  triggers: z
    .array(
      z.strictObject({
        type: z.string().max(64),
        component: partName.exactOptional(),
        cron: z.string().max(200).exactOptional(),
        index: z.int().exactOptional(),
      }),
    )
    .max(100),
  steps: z
    .array(
      z.strictObject({
        name: z.string().min(1).max(128),
        command: z.string().max(65_536).exactOptional(),
        inlineContents: z.string().max(262_144).exactOptional(),
        env: z.record(z.string().max(128), z.string().max(65_536)).exactOptional(),
        source: componentSource.exactOptional(),
      }),
    )
    .max(200),
  labels: labels.exactOptional(),
  role: z.string().max(255).exactOptional(),
  enableKubeConfig: z.boolean().exactOptional(),
  egress: egress.exactOptional(),
})

export const app = z.strictObject({
  name,
  displayName: z.string().max(200),
  description: z.string().max(4000),
  components: z.array(component).min(1).max(1000),
  inputs: z.array(input).max(1000).exactOptional(),
  inputGroups: z
    .array(z.strictObject({ name: z.string().max(128), displayName: words, description: words }))
    .max(200)
    .exactOptional(),
  secrets: z.array(secret).max(1000).exactOptional(),
  policies: z.array(policy).max(500).exactOptional(),
  actions: z.array(action).max(1000).exactOptional(),
  carried: jsonObject.exactOptional(),
}) satisfies z.ZodType<App>
