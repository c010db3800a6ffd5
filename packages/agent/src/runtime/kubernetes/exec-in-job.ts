import { ExecError } from '../runtime.ts'
import type { ExecOptions, JobExec } from '../runtime.ts'
import type { KubeApi } from './kube-api.ts'
import { isKube, KubeError } from './kube-error.ts'
import type { PodExec } from './kube-exec.ts'
import { CONTAINER } from './pod-spec.ts'
import { containerOf } from './pod-state.ts'

/** Without the working folder that the job itself has, a command would start in the root of the image. */
const ENTER = 'cd "$HOME" || exit 1; exec "$@"'

/** `name` is the Job's; undefined for an id that no job can have. */
export async function execInJob(
  api: KubeApi,
  name: string | undefined,
  command: string[],
  options: ExecOptions,
): Promise<JobExec> {
  const { pods } = name === undefined ? { pods: [] } : await api.listPods(`job-name=${name}`)
  const pod = pods.find((found) => containerOf(found, CONTAINER.job)?.state.running !== undefined)
  if (pod === undefined) throw new ExecError('no_job', 'No such job runs.')
  const { tty, stdin, signal } = options
  const exec = await api
    .exec({
      pod: pod.metadata.name,
      container: CONTAINER.job,
      command: ['/bin/sh', '-c', ENTER, 'tenon-exec', ...command],
      tty,
      // Where a terminal has no keyboard the kubelet shows nothing of it.
      stdin: stdin !== undefined || tty,
      signal,
    })
    .catch((error: unknown) => {
      throw broken(error)
    })
  if (stdin !== undefined) void feed(exec, stdin)
  return {
    output: exec.output,
    exitCode: exec.exitCode.catch((error: unknown) => {
      throw broken(error)
    }),
  }
}

async function feed(exec: PodExec, stdin: AsyncIterable<Uint8Array>): Promise<void> {
  try {
    for await (const bytes of stdin) exec.write(bytes)
  } finally {
    exec.endInput()
  }
}

function broken(error: unknown): unknown {
  if (!(error instanceof KubeError)) return error
  const code = isKube(error, 'not_found') ? 'no_job' : 'broken'
  return new ExecError(code, error.message, { cause: error })
}
