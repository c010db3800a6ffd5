/**
 * The build that an action's step takes its files from, as it was when the run was decided. Named apart from
 * `build_id` of jobs: older processes join both tables without saying whose they mean.
 */
export const stepBuild = `
alter table step add column action_build_id text references build;
`
