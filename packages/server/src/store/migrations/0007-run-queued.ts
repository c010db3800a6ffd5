/** The next run of an install is found without going through those that ended long ago. */
export const runQueued = `
create index run_queued on run (install_id, id) where status = 'queued';
`
