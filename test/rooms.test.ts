import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve, sep } from 'node:path'
import { describe, expect, it } from 'vitest'
import { lineAt, scanSource } from './source-scan.ts'

const root = dirname(import.meta.dirname)

/** Rooms from left to right: each imports to its left only, and those of one line not each other. `.` are files in no room. */
interface House {
  src: string
  ground: readonly string[]
  /** Files in no room that stand under all rooms. */
  groundFiles: readonly string[]
  rooms: readonly (readonly string[])[]
  /** Files in no room that put the rooms together: they may import all of them, and nobody imports them but each other. */
  top: readonly string[]
}

const SERVER: House = {
  src: 'packages/server/src',
  ground: ['store', 'ground', 'postgres'],
  groundFiles: ['config.ts', 'context.ts', 'crypto.ts', 'errors.ts', 'log.ts'],
  rooms: [
    ['keys'],
    ['audit'],
    ['people'],
    ['apps'],
    ['artifacts'],
    ['jobs'],
    ['builds', 'runs'],
    ['installs', 'secrets', 'schedules'],
    ['agents'],
    ['api', 'channel'],
  ],
  top: ['index.ts', 'loops.ts', 'main.ts', 'recover-owner.ts', 'start.ts'],
}

const AGENT: House = {
  src: 'packages/agent/src',
  ground: ['ground', 'masking'],
  groundFiles: ['config.ts', 'config-kinds.ts', 'config-kubernetes.ts'],
  rooms: [
    ['store'],
    ['runtime'],
    ['journal'],
    ['egress'],
    ['enrolment'],
    ['channel'],
    ['jobs'],
    ['job-api'],
    ['owner'],
  ],
  top: ['agent.ts', 'assemble.ts', 'index.ts', 'main.ts', 'session.ts'],
}

/** Who alone writes a table. Another room has it written by a function of this one. */
const OWNERS: Readonly<Record<string, readonly string[]>> = {
  keys: ['server_key', 'server_identity'],
  people: ['api_token', 'principal'],
  apps: ['app', 'app_version'],
  artifacts: ['plugin', 'registry_token', 'registry_login'],
  jobs: ['job', 'job_hold', 'job_lapse', 'job_log_chunk', 'lease_watch'],
  builds: ['build'],
  runs: ['run', 'step', 'deploy', 'install_component'],
  installs: ['install'],
  secrets: ['install_secret'],
  schedules: ['install_action'],
  agents: ['agent', 'agent_key', 'join_token', 'server_process'],
  store: ['schema_migration', 'audit_head', 'audit_entry', 'audit_pending'],
}

/** Doors parse, authorize and call. */
const DOORS = ['api', 'channel']

function filesOf(house: House): string[] {
  return readdirSync(join(root, house.src), { recursive: true, encoding: 'utf8' })
    .map((file) => file.split(sep).join('/'))
    .filter((file) => file.endsWith('.ts') && !/\.test\.ts$|\.testing\.ts$|^testing\//.test(file))
}

function roomOf(file: string): string {
  return file.includes('/') ? file.split('/')[0]! : file
}

/** How far to the right; undefined for what has no place in the house. */
function placeOf(house: House, file: string): number | undefined {
  const room = roomOf(file)
  if (house.ground.includes(room) || house.groundFiles.includes(room)) return 0
  if (house.top.includes(room)) return house.rooms.length + 1
  const found = house.rooms.findIndex((line) => line.includes(room))
  return found < 0 ? undefined : found + 1
}

function importBreaches(house: House, file: string, source: string): string[] {
  const from = placeOf(house, file)
  if (from === undefined) return [`${file}: ${roomOf(file)} is no room of the table in test/rooms.test.ts`]
  return scanSource(source).imports.flatMap(({ specifier, line }) => {
    if (!specifier.startsWith('.')) return []
    const target = relative(house.src, resolve('/', house.src, dirname(file), specifier).slice(1))
    const to = placeOf(house, target.split(sep).join('/'))
    if (to === undefined || roomOf(file) === roomOf(target)) return []
    const isAllowed = to < from || (to === from && (from === 0 || from > house.rooms.length))
    return isAllowed ? [] : [`${file}:${line}: ${roomOf(file)} may not import ${target}`]
  })
}

const WRITES = [
  /\b(?:insertInto|updateTable|deleteFrom)\(\s*'(\w+)'/g,
  /\b(?:insert\s+into|delete\s+from)\s+(?:only\s+)?(\w+)/gi,
  /\bupdate\s+(?:only\s+)?(\w+)\s+(?:as\s+\w+\s+)?set\b/gi,
  /\b(?:truncate|merge\s+into)\s+(?:table\s+)?(\w+)/gi,
]
const SQL = /\bsql(?:<[^`]*>)?`|\b(?:selectFrom|insertInto|updateTable|deleteFrom)\(|\bsql\./g

/** Waits for rows that others hold; what skips them waits for nobody. */
const LOCK = /\bfor\s+(?:no\s+key\s+)?(?:update|share)\b(?!\s+skip\s+locked)|\bfor(?:Update|Share)\(/g

/** What each file writes, as `file:line: table`. */
function writesIn(file: string, source: string): { at: string; table: string }[] {
  const known = new Set(Object.values(OWNERS).flat())
  return WRITES.flatMap((pattern) =>
    [...withoutComments(source).matchAll(pattern)].flatMap((match) =>
      known.has(match[1]!) ? [{ at: `${file}:${lineAt(source, match.index)}`, table: match[1]! }] : [],
    ),
  )
}

function ownerBreaches(file: string, source: string): string[] {
  return writesIn(file, source).flatMap(({ at, table }) => {
    const owner = Object.keys(OWNERS).find((room) => OWNERS[room]!.includes(table))!
    return roomOf(file) === owner ? [] : [`${at}: ${table} is written in ${owner}/ alone`]
  })
}

function doorBreaches(file: string, source: string): string[] {
  if (!DOORS.includes(roomOf(file))) return []
  return [...withoutComments(source).matchAll(SQL)].map(
    (match) => `${file}:${lineAt(source, match.index)}: a door has no SQL`,
  )
}

function lockBreaches(file: string, source: string): string[] {
  if (file === 'store/locks.ts') return []
  return [...withoutComments(source).matchAll(LOCK)].map(
    (match) => `${file}:${lineAt(source, match.index)}: locks that wait are taken in store/locks.ts`,
  )
}

function withoutComments(source: string): string {
  return source.replaceAll(/\/\*[\s\S]*?\*\/|(?<=^|\s)\/\/[^\n]*/g, (comment) =>
    comment.replaceAll(/[^\n]/g, ' '),
  )
}

function read(house: House, file: string): string {
  return readFileSync(join(root, house.src, file), 'utf8')
}

describe.each([
  ['server', SERVER],
  ['agent', AGENT],
])('the rooms of the %s', (_, house) => {
  it('import to their left only', () => {
    const files = filesOf(house)
    expect(files.length).toBeGreaterThan(90)
    expect(files.flatMap((file) => importBreaches(house, file, read(house, file)))).toEqual([])
  })
})

describe('the tables', () => {
  const files = filesOf(SERVER).filter((file) => !/^store\/migra|^postgres\//.test(file))

  it('are written by the room that owns them', () => {
    expect(files.flatMap((file) => ownerBreaches(file, read(SERVER, file)))).toEqual([])
  })

  it('each have an owner, and are written by somebody', () => {
    const written = new Set(
      files.flatMap((file) => writesIn(file, read(SERVER, file))).map(({ table }) => table),
    )
    const schema = read(SERVER, 'store/schema.ts')
    const body = /interface Database \{([\s\S]*?)\n\}/.exec(schema)![1]!
    const tables = [...body.matchAll(/^ {2}(\w+): /gm)]
    expect(tables.length).toBeGreaterThan(15)
    const owned = Object.values(OWNERS).flat()
    expect(tables.map(([, table]) => table!).filter((table) => !owned.includes(table))).toEqual([])
    // The chains grow by a function of the database, migrations by the migrator.
    const byOthers = ['schema_migration', 'audit_head', 'audit_entry']
    expect(owned.filter((table) => !written.has(table) && !byOthers.includes(table))).toEqual([])
  })

  it('are locked in one file, in its order', () => {
    expect(files.flatMap((file) => lockBreaches(file, read(SERVER, file)))).toEqual([])
  })

  it('are asked by no door', () => {
    expect(files.flatMap((file) => doorBreaches(file, read(SERVER, file)))).toEqual([])
  })
})

describe('a breach is found and named with its line', () => {
  it.each([
    [
      'jobs/end.ts',
      "import { x } from '../runs/advance.ts'",
      'jobs/end.ts:1: jobs may not import runs/advance.ts',
    ],
    ['runs/a.ts', "import type { X } from '../builds/b.ts'", 'runs may not import builds/b.ts'],
    [
      'store/a.ts',
      "\nimport { x } from '../keys/ring.ts'",
      'store/a.ts:2: store may not import keys/ring.ts',
    ],
    ['ground/a.ts', "import { x } from '../start.ts'", 'ground may not import start.ts'],
    ['agents/a.ts', "export * from '../api/http.ts'", 'agents may not import api/http.ts'],
    ['new/a.ts', '', 'new is no room'],
  ])('%s with %j', (file, source, problem) => {
    expect(importBreaches(SERVER, file, source).join()).toContain(problem)
  })

  it.each([
    ['jobs/a.ts', "import { x } from '../artifacts/b.ts'\nimport type { C } from '../context.ts'"],
    ['start.ts', "import { x } from './api/http.ts'\nimport './loops.ts'"],
    ['store/a.ts', "import { x } from '../ground/hub.ts'"],
    ['jobs/a.ts', "import { y } from './b.ts'"],
  ])('and nothing is said of %s with %j', (file, source) => {
    expect(importBreaches(SERVER, file, source)).toEqual([])
  })

  it.each([
    ['runs/a.ts', 'tx.write(sql`\n  update job set x = 1`)', 'runs/a.ts:2: job is written in jobs/ alone'],
    ['api/a.ts', "db.insertInto('install')", 'install is written in installs/ alone'],
    ['jobs/a.ts', 'sql`delete from build where id = 1`', 'build is written in builds/ alone'],
    [
      'jobs/a.ts',
      'sql`with a as (update install_component as c set x = 1)`',
      'install_component is written in runs/',
    ],
  ])('%s with %j', (file, source, problem) => {
    expect(ownerBreaches(file, source).join()).toContain(problem)
  })

  it('of what only reads, or is said in a comment, nothing is said; and SQL in a door, and a lock elsewhere, are found', () => {
    expect(ownerBreaches('api/a.ts', "// update job set x\ndb.selectFrom('job') // for update")).toEqual([])
    expect(doorBreaches('api/a.ts', 'const a = sql<{ id: string }>`select 1`')).toHaveLength(1)
    expect(doorBreaches('channel/a.ts', "\ndb.selectFrom('job')")).toEqual([
      'channel/a.ts:2: a door has no SQL',
    ])
    expect(doorBreaches('jobs/a.ts', 'sql`select 1`')).toEqual([])
    expect(lockBreaches('jobs/a.ts', 'sql`select from job for update`')).toHaveLength(1)
    expect(lockBreaches('jobs/a.ts', "db.selectFrom('job').forShare()")).toHaveLength(1)
    expect(lockBreaches('jobs/a.ts', 'sql`select from job for update skip locked`')).toEqual([])
  })
})
