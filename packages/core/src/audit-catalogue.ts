import type { AuditFact } from './audit.ts'

/** What a kind of entry can be about, and what it tells people. */
interface AuditKind {
  subject: readonly string[]
  says: string
}

/**
 * Every action that this version writes. Entries of other versions may name more, so whoever reads takes any text.
 * The table in docs/operators.md is made from it.
 */
export const AUDIT_ACTIONS = {
  'action.passed_over': {
    subject: ['action'],
    says: 'a schedule was due, and did not start, for the reason given',
  },

  'agent.audit_mismatch': {
    subject: ['agent'],
    says: 'the agent found that the server’s chain lacks what it had acknowledged',
  },
  'agent.bad_signature': {
    subject: ['agent', 'server'],
    says: 'a session was refused: the agent’s key did not sign its opening',
  },
  'agent.connected': {
    subject: ['agent'],
    says: 'the agent connected for the first time, with its signed hello',
  },
  'agent.dropped': { subject: ['job'], says: 'the agent left out part of a job’s log, past the bound' },
  'agent.enrol_refused': { subject: ['join_token', 'server'], says: 'an enrolment was refused' },
  'agent.enrolled': { subject: ['agent'], says: 'an agent enrolled with a join token' },
  'agent.job_forgotten': {
    subject: ['job'],
    says: 'the agent gave up a job that a later version of it had accepted and not begun',
  },
  'agent.key_accepted': { subject: ['agent'], says: 'the server took the agent’s new key' },
  'agent.key_rotated': { subject: ['agent'], says: 'the agent changed its own key' },
  'agent.paused': { subject: ['agent'], says: 'the customer paused the agent' },
  'agent.quarantined': {
    subject: ['agent'],
    says: 'a session was refused: two copies of the agent share one identity',
  },
  'agent.reattached': {
    subject: ['job'],
    says: 'the agent found a running job again after it had been restarted',
  },
  'agent.released': { subject: ['agent'], says: 'the customer let another agent take this one’s place' },
  'agent.resumed': { subject: ['agent'], says: 'the customer ended the pause' },
  'agent.revoked': { subject: ['agent'], says: 'the agent’s identity was ended' },
  'agent.secret_set': { subject: ['agent'], says: 'the customer set a secret at the agent, past the vendor' },
  'agent.started': { subject: ['agent'], says: 'the agent started' },
  'agent.superseded_earlier': {
    subject: ['agent'],
    says: 'the agent connected after a new start; an earlier one is not heard any more',
  },
  'agent.swept': {
    subject: ['job'],
    says: 'the agent removed what was left of a job that it no longer knows',
  },
  'agent.synced': {
    subject: ['job'],
    says: 'the agent copied artifacts into the install’s registry, or could not',
  },
  'agent.wire_version': {
    subject: ['agent', 'server'],
    says: 'a session was refused: somebody in between changed which versions the agent speaks',
  },

  'app.synced': { subject: ['app'], says: 'a version of the app was sent' },
  'artifact.signed': { subject: ['artifact'], says: 'the server signed an artifact' },
  'audit.mismatch': {
    subject: ['chain'],
    says: 'the server’s chain lacks an entry that was acknowledged to an agent',
  },
  'build.created': { subject: ['build'], says: 'a build was started' },

  'component.drift_gone': { subject: ['component'], says: 'what had drifted is as it was deployed again' },
  'component.drifted': { subject: ['component'], says: 'what is there is no longer what was deployed' },
  'credential.granted': { subject: ['job'], says: 'a job got a credential' },
  'credential.refused': { subject: ['job'], says: 'a job was refused a credential' },

  'install.created': { subject: ['install'], says: 'an install was made' },
  'install.deleted': { subject: ['install'], says: 'a deprovisioned install was taken out of the lists' },
  'install.updated': { subject: ['install'], says: 'an install’s settings were changed' },

  'job.assigned': { subject: ['job'], says: 'a job was given to an agent' },
  'job.cancel_requested': { subject: ['job'], says: 'somebody asked to cancel a job' },
  'job.canceled': { subject: ['job'], says: 'a job ended canceled' },
  'job.failed': { subject: ['job'], says: 'a job ended failed' },
  'job.held': { subject: ['job'], says: 'the agent said not now to a job' },
  'job.lapsed': { subject: ['job'], says: 'a held job was not started in its time' },
  'job.late_report': {
    subject: ['job'],
    says: 'a report came for a job that had lapsed, and was kept without effect',
  },
  'job.lost': { subject: ['job'], says: 'the agent of a job was not heard of until its lease ended' },
  'job.queued': { subject: ['job'], says: 'a job was made, and its manifest signed' },
  'job.recovered': { subject: ['job'], says: 'a job that was lost or had lapsed is going on' },
  'job.refused': {
    subject: ['job'],
    says: 'the agent refused a job that did not wait for its answer; one that did ends as `job.failed`',
  },
  'job.requeued': { subject: ['job'], says: 'a job that had not begun went back to the queue' },
  'job.stale_report': { subject: ['job'], says: 'a report came for a job that its agent no longer had' },
  'job.started': { subject: ['job'], says: 'a job began' },
  'job.succeeded': { subject: ['job'], says: 'a job ended well' },
  'join_token.created': { subject: ['join_token'], says: 'a join token was made' },
  'key.rotated': { subject: ['key'], says: 'the server signs with a new key from here on' },
  'owner.recovered': { subject: ['token'], says: 'an owner’s token was made at the server’s own machine' },
  'plugin.published': { subject: ['plugin'], says: 'the server published a plugin' },
  'principal.created': { subject: ['principal'], says: 'a person or a service was made' },

  'registry.garbage_collected': {
    subject: ['registry'],
    says: 'what nothing needs was deleted from the vendor registry',
  },
  'registry.login_ended': { subject: ['registry_login'], says: 'somebody gave a registry credential back' },
  'registry.login_issued': {
    subject: ['registry_login'],
    says: 'somebody got a credential for the vendor registry',
  },
  'registry.login_redeemed': { subject: ['registry_login'], says: 'a registry credential was used' },
  'registry.login_refused': {
    subject: ['registry_login', 'server'],
    says: 'a registry credential was refused',
  },
  'registry.token_issued': { subject: ['job'], says: 'a job got a one-time token for the vendor registry' },
  'registry.token_redeemed': { subject: ['job'], says: 'a job used its one-time token' },
  'registry.token_refused': {
    subject: ['job', 'server'],
    says: 'a job’s token, or what it asked for with it, was refused',
  },

  'run.cancel_requested': { subject: ['run'], says: 'somebody asked to cancel a run' },
  'run.created': { subject: ['run'], says: 'a run was made' },
  'run.ended': { subject: ['run'], says: 'a run ended' },
  'secret.delivered': {
    subject: ['secret'],
    says: 'the install’s agent stored a secret; the server keeps nothing of it',
  },
  'secret.refused': { subject: ['secret'], says: 'the install’s agent could not store a secret' },
  'secret.set': { subject: ['secret'], says: 'somebody set a secret of an install' },
  'source.stored': { subject: ['artifact'], says: 'the source of a build was sent' },

  'step.approval_added': { subject: ['step'], says: 'a deploy waits for an approval that was not planned' },
  'step.approved': { subject: ['step'], says: 'somebody, or the install’s settings, approved a step' },
  'step.cancel_requested': { subject: ['step'], says: 'somebody asked to cancel a step' },
  'step.rejected': { subject: ['step'], says: 'somebody rejected a step' },
  'step.replanned': { subject: ['step'], says: 'a deploy was planned again: its plan no longer held' },
  'step.retried': { subject: ['step'], says: 'a step was repeated, by somebody or by itself' },
  'step.skipped': { subject: ['step'], says: 'somebody left a step out' },
  'token.created': { subject: ['token'], says: 'an API token was made' },
  'token.revoked': { subject: ['token'], says: 'an API token was revoked' },
} as const satisfies Record<string, AuditKind>

export type AuditAction = keyof typeof AUDIT_ACTIONS
export type SubjectOf<A extends AuditAction> = (typeof AUDIT_ACTIONS)[A]['subject'][number]
export type AuditSubject = SubjectOf<AuditAction>

/** What can be said about a subject of this type. */
export type ActionOn<S extends AuditSubject> = {
  [A in AuditAction]: S extends SubjectOf<A> ? A : never
}[AuditAction]

/** A fact in this version's own words, about a subject that its action can have. */
export type OwnFact<S extends AuditSubject = AuditSubject> = {
  [T in S]: Omit<AuditFact, 'action' | 'subject'> & { action: ActionOn<T>; subject: { type: T; id: string } }
}[S]
