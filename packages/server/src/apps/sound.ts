import {
  CRON,
  graphProblems,
  hasLoneSurrogate,
  type App,
  withTemplateDependencies,
  ConfigRenderError,
} from '@tenon/core'
import { ApiFailure } from '../errors.ts'
import { nextTime } from '../ground/cron.ts'

/** An app as it may be stored, with the dependencies that its templates make; or everything that is wrong with it. */
export function requireSoundApp(sent: App, nowMs: number): App {
  requireSoundText(sent)
  const app = requireSoundTemplates(sent)
  requireSoundGraph(app)
  requireSoundSchedules(app, nowMs)
  return app
}

/** Half a surrogate pair has no canonical form, so an app that holds one has no digest. */
function requireSoundText(app: App): void {
  const texts = [app.displayName, app.description, ...app.components.map((c) => c.type)]
  if (texts.some(hasLoneSurrogate))
    throw new ApiFailure('bad_app', 'the app holds text with broken Unicode', {
      remedy: 'Save its files as UTF-8.',
    })
}

/** What templates read of other components is a dependency, whether or not the config says so. */
function requireSoundTemplates(app: App): App {
  try {
    return withTemplateDependencies(app)
  } catch (error) {
    if (!(error instanceof ConfigRenderError)) throw error
    throw new ApiFailure('bad_app', `a template cannot be read: ${error.message}`, {
      remedy: 'Find its place with `tenon validate`.',
    })
  }
}

/** Every mistake of an app's graph as one answer. */
function requireSoundGraph(app: App): void {
  const problems = graphProblems(app.components).map((problem) => {
    if (problem.code === 'dependency_cycle')
      return {
        path: 'components',
        message: `these depend on each other in a circle: ${problem.path.join(' → ')}`,
      }
    if (problem.code === 'duplicate_component')
      return { path: `components.${problem.component}`, message: 'this name is used twice' }
    return {
      path: `components.${problem.component}.dependencies`,
      message: `there is no component ${problem.dependency}`,
    }
  })
  if (problems.length > 0) throw new ApiFailure('bad_app', 'the components do not form a graph', { problems })
}

/** The CLI says the same with its place in the file; this is for whoever calls the API. */
function requireSoundSchedules(app: App, nowMs: number): void {
  const problems = (app.actions ?? []).flatMap(({ name, triggers }) =>
    triggers.flatMap(({ type, cron }, index) => {
      if (type !== CRON || (cron !== undefined && nextTime(cron, nowMs) !== null)) return []
      const message = 'must be a cron schedule such as 0 */6 * * * (in UTC) that comes'
      return [{ path: `actions.${name}.triggers.${index}.cron`, message }]
    }),
  )
  if (problems.length > 0)
    throw new ApiFailure('bad_app', 'some actions have a schedule that cannot be read', { problems })
}
