import type {
  AgentRole,
  App,
  ApprovalOption,
  BuildStatus,
  DeployStatus,
  InstallStatus,
  JobEndReason,
  OpenValue,
  JobKind,
  JobStatus,
  Json,
  PrincipalKind,
  RunKind,
  RunStatus,
  StepKind,
  StepStatus,
  UserRole,
} from '@tenon/core'
import type { RepositoryGrant } from '@tenon/oci'
import type { Asked, PlanResult, RuntimeInfo } from '@tenon/protocol'
import type { ColumnType, Generated, GeneratedAlways } from 'kysely'

/** The tables, column for column as in the migrations. Timestamps are ISO strings, bigints are numbers. */
export interface Database {
  server_identity: { singleton: Generated<boolean>; server_id: string; created_at: string }
  server_key: {
    id: string
    public_key: string
    private_key_sealed: Buffer
    signed_by: string | null
    signature: string | null
    created_at: string
    /** The form in which it has signed every artifact that there was. */
    signed_form: Generated<number>
  }
  server_process: { id: string; started_at: string; seen_at: string }
  lease_watch: { singleton: Generated<boolean>; watched_at: string }
  api_token: ApiTokenTable
  principal: { id: string; kind: PrincipalKind; name: string; created_at: string }
  app: { id: string; name: string; created_at: string }
  app_version: {
    id: string
    app_id: string
    number: number
    content: JsonColumn<App>
    digest: string
    created_at: string
  }
  plugin: { name: string; repository: string; digest: string; version: string; operations: string[] }
  build: BuildTable
  install: InstallTable
  agent: AgentTable
  join_token: JoinTokenTable
  agent_key: AgentKeyTable
  run: RunTable
  step: StepTable
  job: JobTable
  job_hold: JobHoldTable
  deploy: DeployTable
  install_component: InstallComponentTable
  install_action: InstallActionTable
  job_log_chunk: { job_id: string; start_offset: number; length: number; blob: string }
  install_secret: {
    id: GeneratedAlways<number>
    install_id: string
    name: string
    version: number
    ciphertext: Buffer
    set_at: string
    delivered_at: string | null
    refused_at: string | null
    refusal: string | null
  }
  registry_token: {
    secret_hash: string
    job_id: string
    fence: number
    grants: JsonColumn<RepositoryGrant[]>
    created_at: string
    expires_at: string
    redeemed_at: string | null
  }
  registry_login: {
    id: string
    secret_hash: string
    token_id: string
    created_at: string
    expires_at: string
    ended_at: string | null
    told_at: string | null
  }
  audit_entry: { chain: string; seq: number; body: string; hash: string; action: GeneratedAlways<string> }
  audit_head: { chain: string; seq: number; hash: string }
  audit_pending: { id: GeneratedAlways<number>; before: string; after: string }
}

/** Read as a value, written as its JSON text. */
export type JsonColumn<T> = ColumnType<T, string, string>
type JsonOrNull<T> = ColumnType<T | null, string | null, string | null>
type JsonWithDefault<T> = ColumnType<T, string | undefined, string>

interface ApiTokenTable {
  id: string
  name: string
  principal_id: string
  role: UserRole
  secret_hash: string
  created_at: string
  expires_at: string | null
  revoked_at: string | null
  last_used_at: string | null
}

interface BuildTable {
  id: string
  app_id: string
  app_version_id: string
  component: string
  status: BuildStatus
  /** Null: the build gets it itself, from where the component says. */
  source_digest: string | null
  job_id: string | null
  artifact_repository: string | null
  artifact_digest: string | null
  message: Generated<string>
  created_at: string
  finished_at: string | null
}

interface InstallTable {
  id: string
  name: string
  app_id: string
  status: InstallStatus
  sandbox_type: string
  sandbox_config: JsonColumn<{ [key: string]: Json }>
  inputs: JsonColumn<{ [key: string]: Json }>
  approval: Generated<ApprovalOption>
  toggles: JsonWithDefault<{ [component: string]: boolean }>
  overrides: JsonWithDefault<{ [component: string]: { [key: string]: Json } }>
  /** What went with a component that is switched off, and cannot be switched itself. */
  left_out: Generated<string[]>
  keeps_secrets: Generated<boolean>
  /** What it is shown by since its name was given on; `name` is made of its id then. */
  former_name: Generated<string | null>
  deleted_at: Generated<string | null>
  created_at: string
}

interface AgentTable {
  id: string
  role: AgentRole
  install_id: string | null
  pool: string
  public_key: string
  recipient: string | null
  recipient_signature: string | null
  boot_counter: Generated<number>
  boot_id: Generated<string>
  status: 'enrolled' | 'replaced' | 'revoked'
  version: string
  hostname: string
  runtime: JsonOrNull<RuntimeInfo>
  slots: Generated<number>
  /** Null: not said yet, which counts as all. */
  features: string[] | null
  dropped: Generated<number>
  event_seq: Generated<number>
  session_id: string | null
  process_id: string | null
  last_seen_at: string | null
  paused_at: string | null
  released_until: string | null
  created_at: string
}

/** The keys after the first, each with the words by which the one before it vouched for it. */
interface AgentKeyTable {
  agent_id: string
  position: number
  public_key: string
  text: string
  signature: string
  created_at: string
}

interface JoinTokenTable {
  id: string
  /** For the server version before this one alone, while both run. */
  secret_hash: string
  /** Of the key pair that the secret makes. */
  public_key: string | null
  /** The newest agent of the install when the token was made. */
  replaces: string | null
  role: AgentRole
  install_id: string | null
  created_by: string
  created_at: string
  expires_at: string
  used_at: string | null
  used_by: string | null
}

interface RunTable {
  id: string
  install_id: string
  app_version_id: string
  kind: RunKind
  status: RunStatus
  cancel_requested_at: string | null
  /** The creator's name then. */
  created_by: string
  creator_kind: string | null
  /** Null: a process of the version before made it. */
  creator_id: string | null
  created_at: string
  started_at: string | null
  finished_at: string | null
}

interface StepTable {
  id: string
  run_id: string
  position: number
  key: string
  kind: StepKind
  component: string | null
  action: string | null
  depends_on: string[]
  status: StepStatus
  job_id: string | null
  /** Of an action that is built. */
  action_build_id: string | null
  /** Of an approval without a plan. */
  asked: JsonOrNull<Asked>
  message: Generated<string>
  attempts: Generated<number>
  max_auto_retries: Generated<number>
  not_before: string | null
  started_at: string | null
  finished_at: string | null
}

export interface JobTable {
  id: string
  kind: JobKind
  pool: string
  role: AgentRole
  install_id: string | null
  status: JobStatus
  fence: number
  run_id: string | null
  step_id: string | null
  build_id: string | null
  manifest: string
  manifest_issued_at: string
  manifest_key_id: string
  manifest_signature: string
  manifest_digest: string
  /** Names of features; the manifest has them with their versions. */
  requires: Generated<string[]>
  agent_id: string | null
  lease_until: string | null
  cancel_requested_at: string | null
  reason: OpenValue<JobEndReason> | null
  exit_code: number | null
  message: Generated<string>
  result: JsonWithDefault<{ [key: string]: Json }>
  progress: JsonOrNull<{ message: string; fraction: number | null }>
  confinement: string | null
  log_bytes: Generated<number>
  created_at: string
  assigned_at: string | null
  started_at: string | null
  finished_at: string | null
}

interface JobHoldTable {
  job_id: string
  agent_id: string
  rule: string
  reason: string
  until: string | null
  since: string
  start_before: string
}

interface DeployTable {
  id: string
  install_id: string
  component: string
  build_id: string
  run_id: string
  artifact_repository: string
  artifact_digest: string
  status: DeployStatus
  created_at: string
  finished_at: string | null
}

export interface Drift {
  since: string
  jobId: string
  plan: PlanResult
}

export type Outputs = { [key: string]: { sensitive: boolean; value?: Json | undefined } }

interface InstallComponentTable {
  install_id: string
  component: string
  status: string
  build_id: string
  artifact_repository: string
  artifact_digest: string
  outputs: JsonWithDefault<Outputs>
  config_digest: string | null
  drift: JsonOrNull<Drift>
  drift_check_at: string | null
  deployed_at: string | null
}

interface InstallActionTable {
  install_id: string
  action: string
  schedules: JsonColumn<string[]>
  /** Null: not reckoned yet. */
  next_at: string | null
  /** Why the last time came and went without a run. */
  passed_over: string | null
}
