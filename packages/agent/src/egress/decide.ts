import { isIP } from 'node:net'
import { SERVER_NAME, type JobNetwork } from '@tenon/core'
import { isClosed } from './network.ts'
import { isLoopback, isSame, parseTarget, showTarget, targetOf, type Target } from './target.ts'

export interface EgressRules {
  network: JobNetwork
  /** Of the install, or on the vendor's side the server's. */
  registryUrl: string
  serverUrl: string
  /** API servers that a job's kubeconfig names. */
  clusters: readonly Target[]
  /** False where the customer leaves the job less than its probes need. */
  mayProbe: boolean
}

/** What a manifest leaves to be found out, and the job cannot: see `findDeclared`. */
export interface Declared {
  outputs: readonly Target[]
  probes: readonly Target[]
}

const NOTHING: Declared = { outputs: [], probes: [] }

export type EgressRefusal = 'network_refused' | 'address_refused' | 'bad_target'

export type EgressVerdict =
  | {
      ok: true
      target: Target
      isSecure: boolean
      /** An address of this machine is meant: the agent's own settings or the declaration say it in so many words. */
      mayBeSpecial: boolean
    }
  | { ok: false; code: EgressRefusal; message: string; remedy: string }

/** Pure: whether a job may be connected to `asked`. */
export function decideEgress(
  asked: string,
  rules: EgressRules,
  { outputs, probes }: Declared = NOTHING,
): EgressVerdict {
  const target = parseTarget(asked)
  if (!target) return badTarget(asked)
  const { network, clusters } = rules
  const own = ownTargets(rules).find((each) => isSame(targetOf(each), target))
  if (own !== undefined) return allowed(target, own.protocol === 'https:', true)
  const isSecure = target.port !== 80
  if (network.mode !== 'internal' && clusters.some((each) => isSame(each, target)))
    return allowed(target, isSecure, true)
  if (!isClosed(network)) return allowed(target, isSecure, false)
  const declared = network.mode === 'egress' && network.names.some((name) => isNamed(name, target))
  // A name that resolves to a special address was not declared as one.
  if (declared) return allowed(target, isSecure, isIP(target.host) !== 0)
  const isOutput = outputs.some((each) => isSame(each, target))
  const isProbe = rules.mayProbe && probes.some((each) => isSame(each, target))
  // An app has no say in what this machine's own addresses are; where they are services, an output tells of them.
  if (isProbe || (isOutput && network.mode === 'egress'))
    return allowed(target, isSecure, isOutput && isLoopback(target))
  return refused(target, rules)
}

/** `*.` stands for whatever lies below that domain. */
function isNamed(name: string, target: Target): boolean {
  if (!name.startsWith('*.')) return isMatch(parseTarget(name), target)
  const domain = parseTarget(name.slice(2))
  return domain?.port === target.port && isIP(target.host) === 0 && target.host.endsWith(`.${domain.host}`)
}

function isMatch(one: Target | undefined, other: Target): boolean {
  return one !== undefined && isSame(one, other)
}

/** The agent's own settings: whoever runs it says what is at them. */
function ownTargets({ network, registryUrl, serverUrl }: EgressRules): URL[] {
  const namesServer = !isClosed(network) || network.names.includes(SERVER_NAME)
  return [registryUrl, ...(namesServer ? [serverUrl] : [])].map((url) => new URL(url))
}

/** Pure: the host and port of each output that is an address, plain or as a URL. */
export function targetsIn(values: readonly unknown[]): Target[] {
  return values.flatMap((value): Target[] => {
    if (typeof value !== 'string' || value.length > 2048) return []
    const plain = parseTarget(value)
    if (plain) return [plain]
    if (!/^[a-z][a-z0-9+.-]*:\/\//i.test(value) || !URL.canParse(value)) return []
    const url = new URL(value)
    const hasPort = url.port !== '' || url.protocol === 'http:' || url.protocol === 'https:'
    return hasPort && url.hostname !== '' ? [targetOf(url)] : []
  })
}

function allowed(target: Target, isSecure: boolean, mayBeSpecial: boolean): EgressVerdict {
  return { ok: true, target, isSecure, mayBeSpecial }
}

function refused(target: Target, { network: { mode, names } }: EgressRules): EgressVerdict {
  const reach = ['the job API', 'its registry', ...(mode === 'egress' ? names : [])].join(', ')
  return {
    ok: false,
    code: 'network_refused',
    message: `This job may not reach ${showTarget(target)}: its network is ${mode} (${reach}).`,
    remedy:
      'Have the name declared, or have the customer see whether TENON_JOB_NETWORKS narrows this kind of job.',
  }
}

function badTarget(asked: string): EgressVerdict {
  return {
    ok: false,
    code: 'bad_target',
    message: `${JSON.stringify(asked.slice(0, 100))} is no host:port.`,
    remedy: 'Connect to host:port.',
  }
}
