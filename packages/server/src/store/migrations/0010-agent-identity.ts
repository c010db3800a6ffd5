/**
 * Join tokens are checked by a key made of their secret, and say which agent they may replace; an agent may be given
 * up by its owner; every later key of an agent, with the words by which the key before it vouched for it.
 */
export const agentIdentity = `
alter table join_token add column public_key text, add column replaces text;
alter table agent add column released_until timestamptz;
create table agent_key (
  agent_id text not null references agent,
  position integer not null,
  public_key text not null unique,
  text text not null,
  signature text not null,
  created_at timestamptz not null,
  primary key (agent_id, position)
);
`
