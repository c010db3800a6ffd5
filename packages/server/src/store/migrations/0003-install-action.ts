/** When the scheduled actions of each install are due; those of the apps that are there begin with their next time. */
export const installAction = `
create table install_action (
  install_id text not null references install,
  action text not null,
  schedules jsonb not null,
  -- Null: not reckoned yet.
  next_at timestamptz,
  passed_over text,
  primary key (install_id, action)
);
create index install_action_due on install_action (next_at);

insert into install_action (install_id, action, schedules)
select install.id, action ->> 'name', jsonb_agg(trigger -> 'cron')
from install
cross join lateral (
  select content from app_version where app_id = install.app_id order by number desc limit 1
) as version
cross join jsonb_array_elements(coalesce(version.content -> 'actions', '[]')) as action
cross join jsonb_array_elements(action -> 'triggers') as trigger
where install.status <> 'deprovisioned' and trigger ->> 'type' = 'cron' and trigger ? 'cron'
group by install.id, action ->> 'name';
`
