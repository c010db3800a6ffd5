import type { Migration } from '../migrate.ts'
import { initial } from './0001-initial.ts'
import { agentPaused } from './0002-agent-paused.ts'
import { installAction } from './0003-install-action.ts'
import { stepBuild } from './0004-step-build.ts'
import { installSecrets } from './0005-install-secrets.ts'
import { stepAsked } from './0006-step-asked.ts'
import { runQueued } from './0007-run-queued.ts'
import { principals } from './0008-principals.ts'
import { runCreator } from './0009-run-creator.ts'
import { agentIdentity } from './0010-agent-identity.ts'
import { installNames } from './0012-install-names.ts'
import { heldJobs } from './0013-held-jobs.ts'
import { registryLogins } from './0020-registry-logins.ts'
import { lapsedJobs } from './0021-lapsed-jobs.ts'
import { leftOut } from './0024-left-out.ts'
import { requirements } from './0025-requirements.ts'

/** In order, and never changed once released: the database remembers the checksum of each. */
export const migrations: Migration[] = [
  { name: '0001-initial', sql: initial },
  { name: '0002-agent-paused', sql: agentPaused },
  { name: '0003-install-action', sql: installAction },
  { name: '0004-step-build', sql: stepBuild },
  { name: '0005-install-secrets', sql: installSecrets },
  { name: '0006-step-asked', sql: stepAsked },
  { name: '0007-run-queued', sql: runQueued },
  { name: '0008-principals', sql: principals, landedLate: true },
  { name: '0009-run-creator', sql: runCreator, landedLate: true },
  { name: '0010-agent-identity', sql: agentIdentity },
  { name: '0012-install-names', sql: installNames },
  { name: '0013-held-jobs', sql: heldJobs },
  { name: '0020-registry-logins', sql: registryLogins },
  { name: '0021-lapsed-jobs', sql: lapsedJobs },
  { name: '0024-left-out', sql: leftOut },
  { name: '0025-requirements', sql: requirements },
]
