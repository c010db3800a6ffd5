export const auditAppend = /* sql */ `
-- The canonical text of an entry begins with its action, so the column need not parse the whole of it.
alter table audit_entry drop column action;
alter table audit_entry add column action text generated always as (split_part(body, '"', 4)) stored;

-- Hashes one after the other, then writes them all at once: an insert per entry costs more than its hash.
create or replace function audit_append(p_chain text, p_before text[], p_after text[])
returns table (seq bigint, hash text) language plpgsql as $$
declare
  head audit_head;
  sealed text;
  bodies text[] := '{}';
  hashes text[] := '{}';
  first bigint;
begin
  select * into head from audit_head h where h.chain = p_chain for update;
  if not found then
    insert into audit_head values (p_chain, 0, repeat('0', 64)) on conflict do nothing;
    select * into head from audit_head h where h.chain = p_chain for update;
  end if;
  first := head.seq;
  for i in 1 .. coalesce(array_length(p_before, 1), 0) loop
    head.seq := head.seq + 1;
    sealed := p_before[i] || '"prev":"' || head.hash || '","seq":' || head.seq || p_after[i];
    head.hash := encode(sha256(convert_to(sealed, 'UTF8')), 'hex');
    bodies[i] := sealed;
    hashes[i] := head.hash;
  end loop;
  insert into audit_entry (chain, seq, body, hash)
    select p_chain, first + e.n, e.body, e.hash from unnest(bodies, hashes) with ordinality as e(body, hash, n);
  update audit_head h set seq = head.seq, hash = head.hash where h.chain = p_chain;
  return query select head.seq, head.hash;
end $$;
`
