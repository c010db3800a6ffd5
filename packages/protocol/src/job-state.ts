import { installState, type Json, type TemplateState } from '@tenon/core'
import type { ComponentJobConfig } from './component-job.ts'

type Values = { [name: string]: Json }

/** What a job's configuration leaves to be found in the install, as far as it was. */
export interface FoundValues {
  sensitiveInputs?: Values
  secrets?: { [name: string]: string }
  /** By component; one that is not there has none. */
  outputs: ReadonlyMap<string, Values>
}

/** Pure: the state that a job's templates are rendered over. */
export function jobState(config: ComponentJobConfig, found: FoundValues): TemplateState {
  return installState({
    id: config.install.id,
    name: config.install.name,
    app: { id: config.app.name, name: config.app.name, version: config.app.version },
    inputs: { ...config.inputs, ...found.sensitiveInputs },
    secrets: found.secrets ?? {},
    sandbox: config.sandbox,
    components: Object.entries(config.components).map(([name, { status, buildId, varName }]) => {
      const outputs = found.outputs.get(name)
      return {
        name,
        status,
        buildId,
        ...(varName === null ? {} : { varName }),
        ...(outputs === undefined ? {} : { outputs }),
      }
    }),
  })
}
