import { withAgent } from '../with-agent.ts'
import { DIR, folderOf, JSON_FLAG, print, type Command } from './command.ts'

export const jobsStop: Command = {
  words: 'jobs stop',
  summary: 'stop a job that runs here; the server hears that the customer did it',
  argument: 'JOB',
  options: { ...DIR, ...JSON_FLAG },
  examples: ['tenon agent jobs stop job_01… --dir ./agent'],
  async run(input) {
    const job = await withAgent(folderOf(jobsStop, input), (agent) => agent.stopJob(input.argument))
    if (input.flag('json')) return print(input.io, JSON.stringify(job))
    print(
      input.io,
      job.state === 'finished'
        ? `job ${job.jobId} has ended already; its result waits for the server`
        : `job ${job.jobId} is told to stop; what has not ended after its grace is killed`,
    )
  },
}

export const pause: Command = {
  words: 'pause',
  summary: 'start no jobs until `resume`; those that run go on, new ones are held',
  options: { ...DIR, ...JSON_FLAG },
  examples: ['tenon agent pause --dir ./agent'],
  async run(input) {
    const now = await withAgent(folderOf(pause, input), (agent) => agent.pause())
    if (input.flag('json')) return print(input.io, JSON.stringify(now))
    print(input.io, `paused since ${now.pausedSince}: new jobs are held until \`tenon agent resume\``)
  },
}

export const resume: Command = {
  words: 'resume',
  summary: 'start jobs again, those that were held first',
  options: { ...DIR, ...JSON_FLAG },
  examples: ['tenon agent resume --dir ./agent'],
  async run(input) {
    const now = await withAgent(folderOf(resume, input), (agent) => agent.resume())
    if (input.flag('json')) return print(input.io, JSON.stringify(now))
    print(input.io, 'not paused: jobs start')
  },
}

export const release: Command = {
  words: 'release',
  summary: 'let a new agent take the place of this one, within a day; until then it works on',
  options: { ...DIR, ...JSON_FLAG },
  examples: ['tenon agent release --dir ./agent'],
  async run(input) {
    const now = await withAgent(folderOf(release, input), (agent) => agent.release())
    if (input.flag('json')) return print(input.io, JSON.stringify(now))
    print(
      input.io,
      `released at ${now.releasedAt}: an agent with a join token that replaces this one may enrol within 24 hours`,
    )
    input.io.stderr.write(
      'The server hears it from the running agent: if it is stopped, start it once more.\n',
    )
  },
}

export const rotateKey: Command = {
  words: 'rotate-key',
  summary: 'change the agent’s own key; the one before vouches for the new one',
  options: { ...DIR, ...JSON_FLAG },
  examples: ['tenon agent rotate-key --dir ./agent'],
  async run(input) {
    const { key, accepted } = await withAgent(folderOf(rotateKey, input), (agent) => agent.rotateKey())
    if (input.flag('json')) return print(input.io, JSON.stringify({ key, accepted }))
    print(
      input.io,
      accepted
        ? `the key of this agent is now ${key}`
        : `the new key ${key} is made; it counts as soon as the running agent has the server’s word for it`,
    )
  },
}
