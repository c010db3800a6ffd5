/**
 * A name is that of the living install. `name` stays unique for servers of the version before, which insert with
 * `on conflict (name)`: one whose name was given on has its id (as names are written) there, and its own in `former_name`.
 */
export const installNames = `
alter table install add column former_name text, add column deleted_at timestamptz;
`
