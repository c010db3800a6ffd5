/** What the lapse of a job opened again, as it was before: its agent may have started it in time, and then it goes on. */
export const lapsedJobs = `
create table job_lapse (
  job_id text primary key references job (id),
  at timestamptz not null,
  -- Rows of step and of deploy; null in what an earlier server let lapse.
  steps jsonb,
  deploys jsonb,
  -- When its agent's report came too late to be applied.
  reported_at timestamptz
);
`
