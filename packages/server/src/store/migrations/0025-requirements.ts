/**
 * What an agent must be able to do for a job, as its manifest says, and what each agent said that it can; null: a server
 * of the version before opened its session. Both columns have constant defaults, so that no table is written anew.
 */
export const requirements = `
alter table job add column requires text[] not null default '{}';
alter table agent add column features text[];
`
