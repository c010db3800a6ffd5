import { makeId, type IdKind } from '@tenon/core'
import { PRODUCT_VERSION, type CallOutput, type JobView, type RunView } from '@tenon/protocol'

/** Small whole values of the API, to be changed by a test where it matters. */
export const AT = '2026-11-15T12:00:00.000Z'

export function testId(kind: IdKind, n = 1): string {
  return makeId(kind, Date.parse(AT), new Uint8Array(10).fill(n))
}

export const DIGEST = `sha256:${'a'.repeat(64)}`

export function run(changes: Partial<RunView> = {}): RunView {
  return {
    id: testId('run'),
    kind: 'deploy',
    installId: testId('install'),
    install: 'acme',
    status: 'active',
    steps: [step('sync:web'), step('deploy:web', { dependsOn: ['sync:web'] })],
    waiting: [],
    createdBy: 'anna',
    creator: null,
    createdAt: AT,
    finishedAt: null,
    ...changes,
  }
}

type Step = RunView['steps'][number]

export function step(key: string, changes: Partial<Step> = {}): Step {
  return {
    id: testId('step', key.length),
    key,
    kind: key.split(':')[0]!,
    component: key.split(':')[1] ?? null,
    dependsOn: [],
    status: 'pending',
    jobId: null,
    message: '',
    action: null,
    attempts: 0,
    notBefore: null,
    plan: null,
    asked: null,
    askedBy: null,
    progress: null,
    startedAt: null,
    finishedAt: null,
    ...changes,
  }
}

export function job(changes: Partial<JobView> = {}): JobView {
  return {
    id: testId('job'),
    kind: 'deploy',
    status: 'succeeded',
    fence: 1,
    role: 'install',
    installId: testId('install'),
    install: 'acme',
    component: 'web',
    agentId: testId('agent'),
    stepId: null,
    runId: null,
    buildId: null,
    manifestDigest: DIGEST,
    reason: 'completed',
    exitCode: 0,
    message: '',
    result: {},
    confinement: null,
    logBytes: 0,
    waiting: null,
    createdAt: AT,
    assignedAt: AT,
    startedAt: AT,
    leaseUntil: null,
    finishedAt: AT,
    ...changes,
  }
}

export function build(changes: Partial<CallOutput<'builds.get'>> = {}): CallOutput<'builds.get'> {
  return {
    id: testId('build'),
    app: 'hello',
    appVersion: 1,
    component: 'web',
    status: 'succeeded',
    jobId: testId('job'),
    artifact: DIGEST,
    message: '',
    createdAt: AT,
    finishedAt: AT,
    ...changes,
  }
}

export function install(changes: Partial<CallOutput<'installs.get'>> = {}): CallOutput<'installs.get'> {
  return {
    id: testId('install'),
    name: 'acme',
    app: 'hello',
    sandbox: 'local',
    status: 'active',
    approval: 'approve-all',
    inputs: {},
    toggles: {},
    overrides: {},
    agent: {
      id: testId('agent'),
      connected: true,
      lastSeenAt: AT,
      version: PRODUCT_VERSION,
      pausedSince: null,
    },
    components: [
      {
        name: 'web',
        status: 'deployed',
        artifact: DIGEST,
        deployedAt: AT,
        outputs: { url: { sensitive: false, value: 'http://x' }, key: { sensitive: true } },
        drift: null,
      },
    ],
    activeRun: null,
    createdAt: AT,
    ...changes,
  }
}

export function agent(changes: Partial<CallOutput<'agents.revoke'>> = {}): CallOutput<'agents.revoke'> {
  return {
    id: testId('agent'),
    role: 'build',
    installId: null,
    install: null,
    status: 'enrolled',
    connected: true,
    lastSeenAt: AT,
    version: PRODUCT_VERSION,
    hostname: 'builder',
    runtime: null,
    slots: 4,
    running: 1,
    dropped: 0,
    createdAt: AT,
    ...changes,
  }
}

export function app(changes: Partial<CallOutput<'apps.get'>> = {}): CallOutput<'apps.get'> {
  return {
    id: testId('app'),
    name: 'hello',
    displayName: 'Hello',
    description: 'says hello',
    version: 1,
    components: [{ name: 'web', type: 'script', dependencies: [], artifact: null }],
    createdAt: AT,
    ...changes,
  }
}

export function token(changes: Partial<CallOutput<'tokens.revoke'>> = {}): CallOutput<'tokens.revoke'> {
  return {
    id: testId('token'),
    name: 'ci',
    principal: { kind: 'service', id: testId('principal'), name: 'ci' },
    role: 'operator',
    createdAt: AT,
    expiresAt: null,
    revokedAt: null,
    lastUsedAt: null,
    ...changes,
  }
}

export function serverInfo(changes: Partial<CallOutput<'server.info'>> = {}): CallOutput<'server.info'> {
  return {
    serverId: 'srv-test',
    version: PRODUCT_VERSION,
    fingerprint: 'f'.repeat(64),
    keys: [],
    you: { tokenId: testId('token'), name: 'anna', role: 'owner', principal: null },
    ...changes,
  }
}

/** A version of the app with one input, `a`. */
export function appVersion({ sensitive = false } = {}): CallOutput<'apps.version'> {
  const input = { name: 'a', displayName: 'A', description: '', group: 'g', type: 'string' } as const
  return {
    number: 1,
    digest: DIGEST,
    createdAt: AT,
    app: {
      name: 'hello',
      displayName: 'Hello',
      description: '',
      components: [{ name: 'web', type: 'script', dependencies: [], config: {} }],
      inputs: [{ ...input, required: false, sensitive, internal: false, userConfigurable: true }],
    },
  }
}
