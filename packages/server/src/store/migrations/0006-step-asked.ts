/** What an approval without a plan is about: whoever approves it names its digest. */
export const stepAsked = `
alter table step add column asked jsonb;
`
