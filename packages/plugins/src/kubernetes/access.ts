import { access } from 'node:fs/promises'
import { PluginError } from '../sdk/errors.ts'
import type { OperationContext } from '../sdk/plugin.ts'

/** Where a pod finds the token of its service account; `ca.crt` lies beside it. */
const POD_TOKEN = '/var/run/secrets/kubernetes.io/serviceaccount/token'

type ClusterAccess = 'kubeconfig' | 'pod' | 'none'
type AccessContext = Pick<OperationContext, 'job' | 'baseEnv'>

/** Pure: the file that was lent to jobs goes first, then the service account of the job's own pod. */
export function clusterAccess({ job, baseEnv }: AccessContext, hasPodToken: boolean): ClusterAccess {
  if (job.kubeconfig !== undefined) return 'kubeconfig'
  return hasPodToken && baseEnv['KUBERNETES_SERVICE_HOST'] !== undefined ? 'pod' : 'none'
}

export async function findAccess(context: AccessContext): Promise<ClusterAccess> {
  const hasPodToken = await access(POD_TOKEN).then(
    () => true,
    () => false,
  )
  return clusterAccess(context, hasPodToken)
}

export function noAccess(): PluginError {
  const remedy =
    'On Kubernetes give jobs of this kind a service account (jobs.cluster.namespaces or jobs.serviceAccounts of the chart); elsewhere lend the agent a kubeconfig with TENON_JOB_KUBECONFIG.'
  return new PluginError('cluster_missing', 'This job has no access to a cluster.', remedy)
}
