/** Every way a job's own program can fail; a plugin's result that says no is none of these. */
export const PLUGIN_ERROR_CODES = [
  'bad_environment', // the job was started without what it needs
  'job_api_unreachable', // the agent's socket stayed away
  'job_api_refused', // the agent said no
  'job_api_bad_answer', // the answer does not fit the contract
  'registry_missing', // this job has no registry to read from
  'registry_failed', // a registry refused, or broke off for good
  'plugin_invalid', // the plugin's artifact is not one, or does not say what it must
  'plugin_unknown', // no plugin of that name comes with the agent
  'plugin_failed', // the plugin threw something of its own
  'operation_unsupported',
  'artifact_missing', // the manifest names no such artifact
  'artifact_invalid', // its content is not what the operation needs
  'signature_missing', // an artifact carries no signature
  'signature_refused', // no signature of it is a trusted key's word on it
  'config_invalid', // the operation's configuration has the wrong form
  'script_failed', // a script ended with a code that is not 0, or could not be started
  'outputs_invalid', // what a script left behind is not what it may leave
  'host_unreachable', // the local sandbox's supervisor does not answer
  'host_refused', // it said no, or a unit did not get healthy
  'source_missing', // the component has no source that its type can build from
  'source_unreachable', // the repository, its ref or its folder cannot be had
  'source_refused', // the source holds what may not be built from: a way out of it, a bomb, a device
  'dependency_missing', // something the source needs cannot be had: a chart, a provider
  'image_unresolved', // an image that is named cannot be pinned to a digest
  'tool_missing', // the job has no program that this work needs
  'tool_failed', // such a program ended with a code that is not 0, or took too long
  'tool_unfit', // the program is there in a version that does not do
  'output_missing', // a template names an output that no component has given yet
  'secret_missing', // a template names a secret or sensitive input that the install does not have
  'template_invalid', // a template of the configuration cannot be rendered
  'plan_stale', // what was planned for is not there any more
  'image_outside_closure', // what would run names an image that did not come with the artifact
  'cluster_missing', // the job was given no access to a cluster
  'cluster_refused', // Kubernetes cannot be reached, or said no
  'not_deployable', // the type is carried in configurations, and nothing can deploy it yet
  'policy_invalid', // a policy cannot be read or evaluated
  'canceled',
] as const

export type PluginErrorCode = (typeof PLUGIN_ERROR_CODES)[number]

/** The same job would fail again: somebody has to change something first. */
const FINAL: ReadonlySet<PluginErrorCode> = new Set([
  'artifact_invalid',
  'tool_missing',
  'tool_unfit',
  'output_missing',
  'secret_missing',
  'template_invalid',
  'plan_stale',
  'cluster_missing',
  'image_outside_closure',
  'not_deployable',
  'policy_invalid',
])

export function isFinal(code: PluginErrorCode): boolean {
  return FINAL.has(code)
}

export class PluginError extends Error {
  readonly code: PluginErrorCode
  readonly remedy: string

  constructor(code: PluginErrorCode, message: string, remedy: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = 'PluginError'
    this.code = code
    this.remedy = remedy
  }
}

/** One line for people: code, what happened, what to do next. */
export function errorLine(error: unknown): string {
  const known = asPluginError(error)
  // A time limit stops a job just as a person does; the job's end says which, this line cannot.
  if (known.code === 'canceled') return oneLine(`stopped: ${known.message}`)
  return oneLine(`error ${known.code}: ${known.message} ${known.remedy}`)
}

/** Anything thrown becomes coded; codes of our libraries stay readable in the message. */
export function asPluginError(error: unknown): PluginError {
  if (isPluginError(error)) return error
  const message = error instanceof Error ? error.message : String(error)
  if (error instanceof Error && error.name === 'OciError' && 'code' in error) {
    if (error.code === 'ARCHIVE_REFUSED') {
      const remedy = 'Take out what is named here, or ignore it, and send the source again.'
      return new PluginError('source_refused', `${String(error.code)}: ${message}`, remedy, error)
    }
    const remedy = 'Check that the registry runs and still holds the content, then try again.'
    return new PluginError('registry_failed', `${String(error.code)}: ${message}`, remedy, error)
  }
  if (error instanceof Error && error.name === 'AbortError') return canceled(error)
  return new PluginError('plugin_failed', message, "Read the job's log for what led here.", error)
}

const STOPPED = 'The job was told to stop: it was canceled, or its time was over.'

export function canceled(cause?: unknown): PluginError {
  return new PluginError('canceled', STOPPED, 'Start it again when it should run.', cause)
}

function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, ' ').trim().slice(0, 1500)
}

/** By name, not by class: a plugin's bundle brings its own copy of this one. */
export function isPluginError(error: unknown): error is PluginError {
  return (
    error instanceof Error &&
    error.name === 'PluginError' &&
    'code' in error &&
    'remedy' in error &&
    PLUGIN_ERROR_CODES.includes(error.code as PluginErrorCode)
  )
}
