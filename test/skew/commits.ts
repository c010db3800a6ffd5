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

/** Scenarios that try what an earlier program did not have yet, each with the reason. */
export const WITHOUT: Record<string, Readonly<Record<string, string>>> = {}
