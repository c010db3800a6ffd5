/** Credentials by which people and their tools pull from the vendor registry, each on the strength of one API token. */
export const registryLogins = `
create table registry_login (
  id text primary key,
  secret_hash text not null,
  token_id text not null references api_token (id),
  created_at timestamptz not null,
  expires_at timestamptz not null,
  ended_at timestamptz,
  -- When it was last traded for a bearer and that was written into the audit.
  told_at timestamptz
);
create index registry_login_expiry on registry_login (expires_at);
`
