/** Why a job ended: a closed list, so that every surface can explain each one. */
export const JOB_END_REASONS = [
  'completed', // the program ended with 0
  'exit', // the program ended with another code
  'signal', // somebody outside killed it
  'oom', // it went past its memory limit
  'timeout', // it went past its time limit
  'canceled', // a person or the server asked it to stop
  'start', // it could not be started
  'image', // its image or plugin could not be had
  'refused', // the agent refused its manifest
  'evicted', // its node or cluster gave it up: pressure, drain, preemption, or somebody deleted its pod
  'node-lost', // its node does not answer any more
  'gone', // its container vanished without a trace of its end
  'forced', // a person declared the end of a lost job
] as const

export type JobEndReason = (typeof JOB_END_REASONS)[number]
