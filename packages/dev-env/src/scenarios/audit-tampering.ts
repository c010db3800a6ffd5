import { runTenon } from '../command.ts'
import { createInstall, type Ground } from '../scenario.ts'
import { INSTALL, Stage } from '../stage.ts'
import { until } from '../until.ts'
import { auditOf } from '../expectations.ts'
import { assert } from './shared.ts'

export interface Tampering {
  name: string
  /** What is done to the chain `$1` behind the server's back. */
  statements: string[]
  /** What `tenon audit verify` must say. */
  named: RegExp
}

const LAST = '(select max(seq) from audit_entry where chain = $1)'

export const tamperings: Tampering[] = [
  {
    name: 'a changed row',
    statements: [
      `update audit_entry set body = replace(body, '"ok"', '"failed"') where chain = $1 and seq = 3`,
    ],
    named: /entry 3 was changed/,
  },
  {
    name: 'a changed row with a hash that fits it',
    statements: [
      `update audit_entry set body = replace(body, '"ok"', '"failed"') where chain = $1 and seq = 3`,
      `update audit_entry set hash = encode(sha256(convert_to(body, 'utf8')), 'hex') where chain = $1 and seq = 3`,
    ],
    named: /entry 4 does not follow/,
  },
  {
    name: 'a removed row',
    statements: [`delete from audit_entry where chain = $1 and seq = 4`],
    named: /entry 4 is missing/,
  },
  {
    name: 'a removed tail, with the head set back',
    statements: [
      `delete from audit_entry where chain = $1 and seq >= ${LAST} - 1`,
      `update audit_head h set seq = e.seq, hash = e.hash from audit_entry e
       where h.chain = $1 and e.chain = $1 and e.seq = ${LAST}`,
    ],
    named: /entries \d+ to \d+ are missing at the end/,
  },
]

/** Verifies, changes the chain in SQL, verifies again; a cut tail is also seen by the agent that kept the head. */
export async function playTampering(tampering: Tampering, ground: Ground): Promise<void> {
  const stage = new Stage(ground.dists)
  try {
    await stage.begin(ground.template)
    await createInstall(stage, { web: {} })
    await stage.startAgent()
    await stage.untilRun('succeeded')
    await until('the agent to be done', () => stage.jobsOf('agent').length === 0)
    const before = await runTenon(stage, ['audit', 'verify', '--all'])
    assert(before.code === 0, `an untouched chain does not verify: ${before.output}`)
    const { id } = await stage.client.call('installs.get', { params: { ref: INSTALL } })
    for (const statement of tampering.statements) await stage.sql(statement, [id])
    const after = await runTenon(stage, ['audit', 'verify', '--all'])
    assert(after.code === 1, `tenon audit verify ended with ${after.code}: ${after.output}`)
    assert(tampering.named.test(after.output) && after.output.includes(id), `it says: ${after.output}`)
    if (tampering.name.includes('tail')) await checkThatTheAgentSeesIt(stage)
  } catch (error) {
    throw new Error(`${(error as Error).message}\n${stage.lastWords()}`, { cause: error })
  } finally {
    await stage.end()
  }
}

async function checkThatTheAgentSeesIt(stage: Stage): Promise<void> {
  stage.wire().cut()
  stage.wire().mend()
  await until('the agent to say that the chain was cut', async () => {
    const actions = (await auditOf(stage)).map(({ action }) => action)
    return actions.includes('agent.audit_mismatch') && actions.includes('audit.mismatch')
  })
}
