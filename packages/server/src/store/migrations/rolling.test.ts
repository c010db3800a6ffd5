import { describe, expect, it } from 'vitest'
import { migrations } from './index.ts'

/**
 * During a rolling update the version before reads and writes the same tables. A migration is one transaction: what it
 * locks stays locked until its end, and what it takes away is missed by its neighbor.
 */
const REFUSED: readonly [what: string, pattern: RegExp][] = [
  ['an index on a table that is there', /^create (?:unique )?index .*? on (?:only )?(?<table>\w+)/],
  ['a column of another type', /^alter table .* alter (?:column )?\w+ (?:set data )?type /],
  ['another name', /^alter .* rename /],
  ['something dropped', /^drop |^alter table .* drop (?!constraint )/],
  ['not null set', /^alter table .* set not null/],
  [
    'a column that must have a value, without a default',
    /^alter table .* add (?:column )?(?:(?! default )[^,])* not null(?![^,]* default )/,
  ],
  [
    'a column whose rows are all looked at or written',
    /^alter table .* add (?:column )?(?!constraint )(?:[^,]* (?:references|unique|primary key|check|generated)\b|\w+ \w*serial\b|[^,]* default (?:now|clock_timestamp|gen_random_uuid|random|nextval)\b)/,
  ],
  [
    'a constraint that is checked at once',
    /^alter table .* add (?:constraint \w+ |)(?:check|foreign key|unique|primary key|exclude)\b(?!.* not valid)/,
  ],
  ['a constraint validated in the same transaction', /^alter table .* validate constraint /],
  ['every row written', /^(?:update|delete from) (?!.* where )/],
  ['a table locked or written anew', /^(?:lock|truncate|vacuum|cluster|reindex|refresh) ?/],
]

/** What was written before this was asked, and what came of it. */
const BREACHES: Readonly<Record<string, string[]>> = {
  // The new column is empty: one pass over steps.
  '0004-step-build': ['a column whose rows are all looked at or written'],
  // Of queued runs alone: one pass over runs.
  '0007-run-queued': ['an index on a table that is there'],
  // Tokens are few, and its trigger gives a principal to what the version before inserts.
  '0008-principals': [
    'a column whose rows are all looked at or written',
    'every row written',
    'not null set',
  ],
}

function breachesOf(sql: string): string[] {
  const statements = statementsOf(sql)
  const made = statements.flatMap(
    (each) => /^create (?:\w+ )*?table (?<name>\w+)/.exec(each)?.groups?.['name'] ?? [],
  )
  return statements.flatMap((statement) => {
    const table = /^(?:alter table|update|delete from) (?:only )?(\w+)/.exec(statement)?.[1]
    return REFUSED.flatMap(([what, pattern]) => {
      const found = pattern.exec(statement)
      return found && !made.includes(found.groups?.['table'] ?? table ?? '') ? [what] : []
    })
  })
}

/** In lower case on one line each, without comments, texts and bodies of functions. */
function statementsOf(sql: string): string[] {
  return sql
    .replaceAll(/--.*$/gm, '')
    .replaceAll(/\/\*.*?\*\//gs, '')
    .replaceAll(/(\$\w*\$).*?\1/gs, "''")
    .replaceAll(/'(?:[^']|'')*'/g, "''")
    .split(';')
    .map((statement) => statement.replaceAll(/\s+/g, ' ').trim().toLowerCase())
    .filter((statement) => statement !== '')
}

describe('a migration', () => {
  const later = migrations.filter(({ name }) => name !== '0001-initial')

  it.each(later)('$name locks no table for long and takes nothing from the version before', (migration) => {
    expect(breachesOf(migration.sql)).toEqual(BREACHES[migration.name] ?? [])
  })

  it.each([
    'create index job_by_agent on job (agent_id)',
    'create unique index if not exists one on only job (agent_id)',
    'alter table job alter column fence type bigint',
    'alter table job alter fence set data type bigint',
    'alter table job rename column fence to number',
    'alter table job rename to task',
    'alter table job drop column fence',
    'alter table job add column a text, drop fence',
    'alter table job alter column message drop default',
    'drop table job',
    'alter table job alter column agent_id set not null',
    'alter table job add column weight integer not null',
    'alter table job add column a text not null, add column b text default 1',
    'alter table job add column step_id text references step',
    'alter table job add number serial',
    'alter table job add column seen_at timestamptz not null default now()',
    'alter table job add constraint positive check (fence > 0)',
    'alter table job add unique (fence)',
    'alter table job validate constraint positive',
    'update job set message = null',
    'delete from job',
    'lock table job',
    'truncate job',
  ])('may not: %s', (sql) => {
    expect(breachesOf(`-- why\n${sql.replace(' ', '\n  ').toUpperCase()};`)).toHaveLength(1)
  })

  it.each([
    'create table note (id text primary key references job, at timestamptz not null); create index on note (at)',
    'alter table job add column a text, add column b boolean not null default false',
    'alter table job drop constraint job_status_check',
    'alter table job add constraint positive check (fence > 0) not valid',
    "update job set message = 'lock; truncate' where status = 'queued'",
    'create function f() returns trigger language plpgsql as $$ begin drop table job; end $$',
  ])('may: %s', (sql) => {
    expect(breachesOf(sql)).toEqual([])
  })
})
