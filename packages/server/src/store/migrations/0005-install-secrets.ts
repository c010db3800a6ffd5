/** Whether the install's cluster may hold secrets that a run put there: they must go when the app no longer has them. */
export const installSecrets = `
alter table install add column keeps_secrets boolean not null default false;

update install set keeps_secrets = true
where id in (select run.install_id from step join run on run.id = step.run_id where step.kind = 'secrets');
`
