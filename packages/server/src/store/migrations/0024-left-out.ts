/**
 * What went with a component that was switched off and cannot be switched itself; and of each key the form in which it
 * has signed every artifact, so that a start need not read them all again.
 */
export const leftOut = `
alter table install add column left_out text[] not null default '{}';
alter table server_key add column signed_form integer not null default 0;
`
