import { join } from 'node:path'
import { complaintOf, findTool, runTool, type ToolContext, type ToolEnd } from '../deploy/run-tool.ts'
import { PluginError } from '../sdk/errors.ts'
import type { OperationContext } from '../sdk/plugin.ts'
import { findAccess, noAccess } from './access.ts'
import { parseObjects, type KubeObject } from './objects.ts'

/** The install's cluster, through kubectl: it knows every way in which clusters are logged in to. */
export interface Cluster {
  /** For helm and for scripts too. */
  env: Record<string, string>
  /** For how long something may still be waited for, so that the job can tell the reason before its own time is up. */
  readonly patienceMs: number
  /** Into the job's log. */
  log(line: string): void
  kubectl(args: string[], input?: string, timeoutMs?: number): Promise<ToolEnd>
  /** As `kubectl`; an answer that is a refusal is an error that says so. */
  must(args: string[], input?: string): Promise<string>
  /** As `kubectl`, but each line goes to `log` as it comes and nothing is kept, for as long as the job may run. */
  stream(args: string[], log: (line: string) => void): Promise<ToolEnd>
  /** `kubectl get … -o json`; what is not there, or of a kind that is not there, is left out. */
  get(args: string[]): Promise<KubeObject[]>
}

const TIMEOUT_MS = 120_000
/** Milliseconds for each second that the job may take. */
const PATIENCE_OF_LIMIT = 700
const LEAST_PATIENCE_MS = 10_000

export type ClusterContext = ToolContext & Pick<OperationContext, 'job' | 'workDir'>

export async function openCluster(context: ClusterContext): Promise<Cluster> {
  const program = await findTool(context, 'kubectl')
  if ((await findAccess(context)) === 'none') throw noAccess()
  const env = clusterEnv(context)
  const giveUp = Date.now() + context.manifest.limits.timeoutSeconds * PATIENCE_OF_LIMIT
  const kubectl: Cluster['kubectl'] = (args, input, timeoutMs = TIMEOUT_MS) =>
    runTool(context, {
      program,
      args,
      cwd: context.workDir,
      env,
      timeoutMs,
      ...(input === undefined ? {} : { input }),
    })
  const must: Cluster['must'] = async (args, input) => {
    const end = await kubectl(args, input)
    if (end.code === 0) return end.stdout
    throw refused(args[0] ?? '', end)
  }
  const stream: Cluster['stream'] = (args, log) => {
    const timeoutMs = context.manifest.limits.timeoutSeconds * 1000
    const streamed = { isLogged: true, isKept: false, timeoutMs }
    return runTool({ ...context, log }, { program, args, cwd: context.workDir, env, ...streamed })
  }
  return {
    env,
    get patienceMs() {
      return Math.max(LEAST_PATIENCE_MS, giveUp - Date.now())
    },
    log: (line) => context.log(line),
    kubectl,
    must,
    stream,
    get: async (args) => {
      const end = await kubectl(['get', '-o', 'json', '--ignore-not-found', ...args])
      if (end.code !== 0 && !isAbsent(end.stderr)) throw refused('get', end)
      return end.stdout.trim() === '' ? [] : parseObjects(end.stdout, 'the answer of the cluster')
    },
  }
}

/** Without a file that was lent, programs find the account of their pod by themselves. */
export function clusterEnv({
  job,
  workDir,
}: Pick<ClusterContext, 'job' | 'workDir'>): Record<string, string> {
  const cache = { KUBECACHEDIR: join(workDir, 'kubectl') }
  return job.kubeconfig === undefined ? cache : { ...cache, KUBECONFIG: job.kubeconfig }
}

function isAbsent(complaint: string): boolean {
  return /doesn't have a resource type|\(NotFound\)|no matches for kind/.test(complaint)
}

export function refused(what: string, end: ToolEnd): PluginError {
  const remedy = "Check that the cluster runs and what the jobs' account may do there, then try again."
  return new PluginError('cluster_refused', `The cluster refused ${what}: ${complaintOf(end)}`, remedy)
}
