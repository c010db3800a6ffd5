/**
 * Runs held the name of a token, which is not unique; the audit knows which token it was. The text of an entry is
 * canonical JSON: it begins with action and actor and ends with the subject, so that nothing of it needs to be parsed.
 */
export const runCreator = `
create temporary table run_creator on commit drop as
select chain, left(right(body, 46), 30) as run_id, split_part(body, '"', 10) as id, split_part(body, '"', 14) as kind
from audit_entry where action = 'run.created' and right(body, 16) = '","type":"run"}}';
analyze run_creator;

update run set creator_kind = coalesce(principal.kind, run_creator.kind),
  creator_id = coalesce(principal.id, run_creator.id)
from run_creator
left join api_token on api_token.id = run_creator.id
left join principal on principal.id = api_token.principal_id
where run.id = run_creator.run_id and run.install_id = run_creator.chain and run.creator_id is null;
`
