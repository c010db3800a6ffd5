export const initial = /* sql */ `
create table server_identity (
  singleton boolean primary key default true check (singleton),
  server_id text not null,
  created_at timestamptz not null
);

create table server_key (
  id text primary key,
  public_key text not null,
  private_key_sealed bytea not null,
  signed_by text references server_key,
  signature text,
  created_at timestamptz not null
);

-- Which server processes live, and until when the leases were last looked after.
create table server_process (
  id text primary key,
  started_at timestamptz not null,
  seen_at timestamptz not null
);
create table lease_watch (
  singleton boolean primary key default true check (singleton),
  watched_at timestamptz not null
);

create table api_token (
  id text primary key,
  name text not null,
  role text not null check (role in ('owner', 'operator', 'viewer')),
  secret_hash text not null unique,
  created_at timestamptz not null,
  expires_at timestamptz,
  revoked_at timestamptz,
  last_used_at timestamptz
);

create table app (
  id text primary key,
  name text not null unique,
  created_at timestamptz not null
);
create table app_version (
  id text primary key,
  app_id text not null references app,
  number integer not null,
  content jsonb not null,
  digest text not null,
  created_at timestamptz not null,
  unique (app_id, number)
);

-- What runs a component of each type, by digest; pushed to the vendor registry by the server that brings it.
create table plugin (
  name text primary key,
  repository text not null,
  digest text not null,
  version text not null,
  operations text[] not null
);

create table build (
  id text primary key,
  app_id text not null references app,
  app_version_id text not null references app_version,
  component text not null,
  status text not null check (status in ('queued', 'running', 'succeeded', 'failed', 'canceled')),
  source_digest text,
  job_id text,
  artifact_repository text,
  artifact_digest text,
  message text not null default '',
  created_at timestamptz not null,
  finished_at timestamptz
);
create index build_newest on build (app_id, component, id desc) where status = 'succeeded';

create table install (
  id text primary key,
  name text not null unique,
  app_id text not null references app,
  status text not null check (status in ('new', 'provisioning', 'active', 'failed', 'deprovisioning', 'deprovisioned')),
  sandbox_type text not null,
  sandbox_config jsonb not null,
  inputs jsonb not null,
  approval text not null default 'approve-all' check (approval in ('approve-all', 'prompt')),
  toggles jsonb not null default '{}',
  overrides jsonb not null default '{}',
  created_at timestamptz not null
);

create table agent (
  id text primary key,
  role text not null check (role in ('build', 'setup', 'install')),
  install_id text references install,
  pool text not null,
  public_key text not null unique,
  recipient text,
  recipient_signature text,
  boot_counter bigint not null default 0,
  boot_id text not null default '',
  status text not null check (status in ('enrolled', 'replaced', 'revoked')),
  version text not null,
  hostname text not null,
  runtime jsonb,
  slots integer not null default 0,
  dropped bigint not null default 0,
  event_seq bigint not null default 0,
  session_id text,
  process_id text,
  last_seen_at timestamptz,
  created_at timestamptz not null
);
create index agent_pool on agent (pool);
-- One live identity per install: a replacement takes over, it does not join.
create unique index agent_one_per_install on agent (install_id) where status = 'enrolled';

create table join_token (
  id text primary key,
  secret_hash text not null,
  role text not null,
  install_id text references install,
  created_by text not null,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  used_at timestamptz,
  used_by text
);

create table run (
  id text primary key,
  install_id text not null references install,
  app_version_id text not null references app_version,
  kind text not null,
  status text not null check (status in ('queued', 'active', 'succeeded', 'failed', 'canceled')),
  cancel_requested_at timestamptz,
  created_by text not null,
  created_at timestamptz not null,
  started_at timestamptz,
  finished_at timestamptz
);
create index run_of_install on run (install_id, id desc);
-- At most one change at a time on an install.
create unique index run_active on run (install_id) where status = 'active';

create table step (
  id text primary key,
  run_id text not null references run,
  position integer not null,
  key text not null,
  kind text not null,
  component text,
  action text,
  depends_on text[] not null,
  status text not null check (status in ('pending', 'active', 'succeeded', 'failed', 'canceled', 'skipped')),
  job_id text,
  message text not null default '',
  attempts integer not null default 0,
  max_auto_retries integer not null default 0,
  not_before timestamptz,
  started_at timestamptz,
  finished_at timestamptz,
  unique (run_id, key)
);
create index step_retry on step (not_before) where status = 'pending' and not_before is not null;

create table job (
  id text primary key,
  kind text not null,
  pool text not null,
  role text not null,
  install_id text references install,
  status text not null check (status in ('queued', 'assigned', 'running', 'succeeded', 'failed', 'canceled', 'lost')),
  fence integer not null,
  run_id text references run,
  step_id text references step,
  build_id text references build,
  manifest text not null,
  manifest_issued_at timestamptz not null,
  manifest_key_id text not null,
  manifest_signature text not null,
  manifest_digest text not null,
  agent_id text references agent,
  lease_until timestamptz,
  cancel_requested_at timestamptz,
  reason text,
  exit_code integer,
  message text not null default '',
  result jsonb not null default '{}',
  progress jsonb,
  confinement text,
  log_bytes bigint not null default 0,
  created_at timestamptz not null,
  assigned_at timestamptz,
  started_at timestamptz,
  finished_at timestamptz
);
create index job_queue on job (pool, id) where status = 'queued';
-- Few rows at any time: leases and cancels are looked for in here too, so that a renewed lease writes no index.
-- What people wait for must not be looked for among thousands of others.
create index job_queue_interactive on job (pool, id) where status = 'queued' and kind in ('action', 'logs', 'debug');
create index job_held on job (agent_id) where status in ('assigned', 'running', 'lost');
create index job_of_run on job (run_id);

create table deploy (
  id text primary key,
  install_id text not null references install,
  component text not null,
  build_id text not null references build,
  run_id text not null references run,
  artifact_repository text not null,
  artifact_digest text not null,
  status text not null check (status in ('pending', 'syncing', 'deploying', 'succeeded', 'failed', 'canceled', 'skipped')),
  created_at timestamptz not null,
  finished_at timestamptz,
  unique (run_id, component)
);
create index deploy_of_install on deploy (install_id, id desc);

-- What is, or may be, on an install: a row appears when a deploy starts and goes when a destroy succeeded.
create table install_component (
  install_id text not null references install,
  component text not null,
  status text not null,
  build_id text not null references build,
  artifact_repository text not null,
  artifact_digest text not null,
  outputs jsonb not null default '{}',
  -- Of what was deployed: its configuration and the inputs that it reads.
  config_digest text,
  drift jsonb,
  drift_check_at timestamptz,
  deployed_at timestamptz,
  primary key (install_id, component)
);
create index install_component_drift on install_component (drift_check_at) where drift_check_at is not null;

-- The index of job logs; the bytes are in the blob store.
create table job_log_chunk (
  job_id text not null references job,
  start_offset bigint not null,
  length integer not null,
  blob text not null,
  primary key (job_id, start_offset)
);

create table install_secret (
  id bigint generated always as identity primary key,
  install_id text not null references install,
  name text not null,
  version integer not null,
  ciphertext bytea not null,
  set_at timestamptz not null,
  delivered_at timestamptz,
  -- The agent's own words why it could not store it; it is offered again after a while.
  refused_at timestamptz,
  refusal text,
  unique (install_id, name, version)
);

-- What a sync may trade once for a bearer of the vendor registry. Kept for a day after its end, to tell reuse from a guess.
create table registry_token (
  secret_hash text primary key,
  job_id text not null references job,
  fence bigint not null,
  grants jsonb not null,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  redeemed_at timestamptz
);
create index registry_token_expiry on registry_token (expires_at);

create table audit_entry (
  chain text not null,
  seq bigint not null,
  body text not null,
  hash text not null,
  -- The canonical text of an entry begins with its action, so the column need not parse the whole of it.
  action text generated always as (split_part(body, '"', 4)) stored,
  primary key (chain, seq)
);
create table audit_head (
  chain text primary key,
  seq bigint not null,
  hash text not null
);
-- Facts of the server's own chain, written with the change they tell of, sealed in batches by one writer.
create table audit_pending (
  id bigint generated always as identity primary key,
  before text not null,
  after text not null
);

-- Seals entries of any number of chains in one call, under the locks of the chains' heads; core's sealEntry makes the
-- same bytes. Entries come with those of one chain side by side, chains in the order of their bytes.
create function audit_append(p_chain text[], p_before text[], p_after text[])
returns table (chain text, seq bigint, hash text) language plpgsql as $$
#variable_conflict use_column
declare
  head audit_head;
  at integer := 1;
  count integer := coalesce(array_length(p_chain, 1), 0);
  sealed text;
  seqs bigint[];
  bodies text[];
  hashes text[];
  ends integer[];
begin
  for head in
    select * from audit_head h where h.chain = any(p_chain) order by h.chain collate "C" for update
  loop
    while at <= count and p_chain[at] = head.chain loop
      head.seq := head.seq + 1;
      sealed := p_before[at] || '"prev":"' || head.hash || '","seq":' || head.seq || p_after[at];
      head.hash := encode(sha256(convert_to(sealed, 'UTF8')), 'hex');
      seqs[at] := head.seq;
      bodies[at] := sealed;
      hashes[at] := head.hash;
      at := at + 1;
    end loop;
    ends := ends || (at - 1);
  end loop;
  insert into audit_entry (chain, seq, body, hash)
    select * from unnest(p_chain[:at - 1], seqs, bodies, hashes);
  return query update audit_head h set seq = seqs[e], hash = hashes[e]
    from unnest(ends) as e where h.chain = p_chain[e] returning h.chain, h.seq, h.hash;
  if at > count then return; end if;
  -- The next chain has no head yet: it is made, and the rest goes on from there.
  insert into audit_head values (p_chain[at], 0, repeat('0', 64)) on conflict do nothing;
  return query select * from audit_append(p_chain[at:], p_before[at:], p_after[at:]);
end $$;
`
