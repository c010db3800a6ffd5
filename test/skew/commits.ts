/**
 * Earlier commits whose programs work with today's, all after 12129a5, where versions began to live together, and after
 * d456c02 and 9d1d414, which changed enrolment once more within that version.
 */
export const COMMITS = {
  /** The oldest that can enrol here: it knows neither rotation of an agent's key nor networks of jobs, and speaks 0.2. */
  oldest: '9d1d4144b280e65016f90376bbf0632134b4f1b5',
  /** The last one before principals: its server writes tokens as actors, and its database lacks two migrations. */
  beforePrincipals: '597855b011dea70451cdc08e326821425dbd14da',
} as const

const CLOSED =
  'jobs with a closed network sync and deploy, and reach no Postgres, server, metadata or other port'
const DECLARED = [
  'a component that declares what it calls reaches that, and nothing else of the machine',
  'a component that declares what it calls reads an address of the component that it depends on',
  'probes of a job with a closed network reach what they name, and the service that an output names',
  'a probe of a job with a closed network to what nothing declares is refused in words',
]
const FIRST_START = 'a first start on a busy port, then one that works, and an owner who lost the token twice'
/** No agent of 0.2 is given a job whose network was declared: it would wait for ever. */
const NO_DECLARED_JOBS = becauseOf('these agents are given no job that declares what it calls', DECLARED)
const NO_NETWORKS = becauseOf('these agents cannot give a job a network of its own', [CLOSED])
const NO_DECLARATIONS = becauseOf('this server takes no declarations', DECLARED)
const NO_RECOVERY = becauseOf('this server cannot recover an owner', [FIRST_START])

/** Scenarios that try what an earlier program did not have yet, each with the reason. */
export const WITHOUT: Record<string, Readonly<Record<string, string>>> = {
  'server today, agents 9d1d414': { ...NO_NETWORKS, ...NO_DECLARED_JOBS },
  'server today, agents 597855b': NO_DECLARED_JOBS,
  'server 9d1d414, agents today': { ...NO_DECLARATIONS, ...NO_RECOVERY },
}

function becauseOf(why: string, scenarios: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(scenarios.map((name) => [name, why]))
}
