/**
 * Jobs that their agents hold. In a table of their own: the one of jobs is long, and an index on it takes its time. What
 * still queues in the first form of manifests is signed again before it leaves.
 */
export const heldJobs = `
alter table job drop constraint job_status_check;
alter table job add constraint job_status_check check (status in
  ('queued', 'assigned', 'held', 'running', 'succeeded', 'failed', 'canceled', 'lapsed', 'lost')) not valid;

create table job_hold (
  job_id text primary key references job (id),
  agent_id text not null references agent (id),
  rule text not null,
  reason text not null,
  until timestamptz,
  since timestamptz not null,
  start_before timestamptz not null
);
create index job_hold_agent on job_hold (agent_id);

update job set manifest_issued_at = '-infinity' where status = 'queued';
`
