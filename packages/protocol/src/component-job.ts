import { z } from 'zod'
import { signedHealth } from './api/app.ts'
import { digest, handingOn, id, json, jsonObject, name, partName, repository } from './scalars.ts'

/** A sensitive input lies in the install store as the secret of this name; the server never has its value. */
export function inputSecretName(input: string): string {
  return `input--${input}`
}

/** What somebody asked of a `logs` job: the last lines of a component's containers, or all that they write from now on. */
export const logsRequest = handingOn({
  tailLines: z.int().min(0).max(100_000).default(200),
  sinceSeconds: z.int().min(1).max(31_536_000).exactOptional(),
  /** Until the job is told to stop. */
  follow: z.boolean().default(false),
  /** Of the run before the present one. */
  previous: z.boolean().default(false),
  pod: z.string().max(253).exactOptional(),
  container: z.string().max(253).exactOptional(),
})
export type LogsRequest = z.infer<typeof logsRequest>

/** What somebody asked of a `debug` job: a command in a container of the component; without one, what is wrong with it. */
export const debugRequest = handingOn({
  command: z.array(z.string().max(10_000)).max(100).default([]),
  pod: z.string().max(253).exactOptional(),
  container: z.string().max(253).exactOptional(),
})
export type DebugRequest = z.infer<typeof debugRequest>

/**
 * `config` of an operation on a component or an action, as the server signs it. Strings in `component` are templates;
 * the job renders them over what stands here and what the job API gives it (secrets, outputs), and nothing else.
 */
export const componentJobConfig = handingOn({
  /** The type's own configuration; of an action, its steps and their environment. */
  component: jsonObject,
  type: z.string(),
  install: handingOn({ id, name }),
  app: handingOn({ name, version: z.int() }),
  sandbox: handingOn({ type: z.string(), outputs: jsonObject }),
  /** Without the sensitive ones. */
  inputs: z.record(z.string(), json),
  sensitiveInputs: z.array(partName),
  /** The secrets that the job may ask for, sensitive inputs (`inputSecretName`) among them. */
  secrets: z.array(partName),
  /** What the agent does for a secret that the install does not have: make one, or take what the vendor preset. */
  absentSecrets: z.record(
    partName,
    z.discriminatedUnion('how', [
      handingOn({ how: z.literal('generate'), format: z.enum(['base64', '']) }),
      handingOn({ how: z.literal('preset'), value: z.string() }),
    ]),
  ),
  /** Components whose outputs the job may ask for. */
  dependencies: z.array(partName),
  /** What is on the install, and this component as it is to be: for image references and `build_id` in templates. */
  components: z.record(
    z.string(),
    handingOn({
      type: z.string(),
      status: z.string(),
      buildId: id,
      artifact: handingOn({ repository, digest }),
      varName: z.string().nullable(),
    }),
  ),
  /** What this install says otherwise: `helm_values`, `tf_vars`. */
  overrides: jsonObject,
  health: signedHealth.nullable(),
  /** CEL, for `plan`. */
  policies: z.array(handingOn({ name: z.string(), contents: z.string() })),
  logs: logsRequest.exactOptional(),
  debug: debugRequest.exactOptional(),
})
export type ComponentJobConfig = z.infer<typeof componentJobConfig>
