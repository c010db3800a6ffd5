import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, it } from 'vitest'
import { AUDIT_ACTIONS, type AuditAction, type OwnFact } from '../packages/core/src/audit-catalogue.ts'
import { JOB_OUTCOMES } from '../packages/core/src/states.ts'
import { AGENT_EVENTS } from '../packages/protocol/src/channel.ts'

const root = dirname(import.meta.dirname)
const PAGE = join(root, 'docs/operators.md')
const SECTION = /(?<=<!-- audit actions -->\n)[^]*?(?=<!-- end of audit actions -->)/
/** Written by a template, whose type the compiler knows: `job.${outcome}`, `agent.${code}`. */
const BY_TEMPLATE = [
  ...JOB_OUTCOMES.map((outcome) => `job.${outcome}`),
  'agent.bad_signature',
  'agent.wire_version',
  'agent.quarantined',
]

const table = [
  '',
  '| action | about | says |',
  '|---|---|---|',
  ...Object.entries(AUDIT_ACTIONS).map(([action, { subject, says }]) => {
    return `| \`${action}\` | ${subject.map((type) => `\`${type}\``).join(', ')} | ${says} |`
  }),
  '',
  '',
].join('\n')

it('the page for operators has the table of the catalogue', () => {
  const page = readFileSync(PAGE, 'utf8')
  if (process.env['TENON_WRITE_DOCS'])
    writeFileSync(
      PAGE,
      page.replace(SECTION, () => table),
    )
  const said = SECTION.exec(readFileSync(PAGE, 'utf8'))?.[0]
  expect(said, 'write it: `TENON_WRITE_DOCS=1 npx vitest run test/audit-actions.test.ts`').toBe(table)
})

it('the catalogue has no action that nothing writes, and is in order', () => {
  const actions = Object.keys(AUDIT_ACTIONS)
  const written = new Set<string>([...AGENT_EVENTS, ...BY_TEMPLATE, ...quotedInServer()])
  expect(actions.filter((action) => !written.has(action))).toEqual([])
  expect(actions).toEqual(actions.toSorted())
})

it('the compiler refuses an action that is not in it, and a subject that is not the action’s', () => {
  const rest = {
    outcome: 'ok',
    manifestDigest: null,
    details: {},
    actor: { type: 'server', id: 's' },
  } as const
  const sound: OwnFact = { ...rest, action: 'run.ended', subject: { type: 'run', id: 'r' } }
  // @ts-expect-error: a run is no job
  const elsewhere: OwnFact = { ...rest, action: 'run.ended', subject: { type: 'job', id: 'r' } }
  // @ts-expect-error: nothing writes it
  const unknown: OwnFact = { ...rest, action: 'run.eaten', subject: { type: 'run', id: 'r' } }
  const subjectsOf = ({ action }: OwnFact): readonly string[] | undefined =>
    (AUDIT_ACTIONS as Partial<Record<AuditAction, { subject: readonly string[] }>>)[action]?.subject
  expect([sound, elsewhere, unknown].map(subjectsOf)).toEqual([['run'], ['run'], undefined])
})

function quotedInServer(): string[] {
  const dir = join(root, 'packages/server/src')
  return readdirSync(dir, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts') && !name.startsWith('testing'))
    .flatMap((name) => readFileSync(join(dir, name), 'utf8').match(/(?<=')[a-z_]+\.[a-z_]+(?=')/g) ?? [])
}
