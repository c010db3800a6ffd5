/**
 * Who acts. Every token there is gets a principal of its own, and so does one that a process of the version before makes:
 * it knows nothing of them. What it writes of a run is a name only, so that the creator of a run may be absent.
 */
export const principals = `
create table principal (
  id text primary key,
  kind text not null check (kind in ('user', 'service')),
  name text not null,
  created_at timestamptz not null
);

alter table api_token add column principal_id text references principal;
insert into principal select 'prn_' || substr(id, 5), 'user', name, created_at from api_token;
update api_token set principal_id = 'prn_' || substr(id, 5);
alter table api_token alter column principal_id set not null;

create function api_token_principal() returns trigger language plpgsql as $$
begin
  if new.principal_id is null then
    new.principal_id := 'prn_' || substr(new.id, 5);
    insert into principal values (new.principal_id, 'user', new.name, new.created_at);
  end if;
  return new;
end $$;
create trigger api_token_principal before insert on api_token
  for each row execute function api_token_principal();

update join_token set created_by = api_token.principal_id from api_token where api_token.id = join_token.created_by;

alter table run add column creator_kind text, add column creator_id text;
`
