import { pluginDescription } from '@tenon/protocol'
import type { Plugin } from '../sdk/plugin.ts'
import { build } from './build.ts'
import { deploy, destroy } from './deploy.ts'
import { debug, logs } from './look-into.ts'
import { plan, status } from './plan.ts'
import description from './plugin.json' with { type: 'json' }

/** The component type `helm_chart`: a chart, packed as Helm's own OCI artifact. */
const helmChartPlugin: Plugin = {
  description: pluginDescription.parse(description),
  operations: { build, plan, deploy, destroy, status, logs, debug },
}
export default helmChartPlugin
