/** Since when the customer lets an agent take no new jobs, as the agent told it. */
export const agentPaused = `
alter table agent add column paused_at timestamptz;
`
