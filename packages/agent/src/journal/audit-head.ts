import type { AuditHead } from '@tenon/core'

/** Pure: what an offered head says about the one that was kept. `cut` and `changed` mean that history was altered. */
export function compareHeads(
  kept: AuditHead | null,
  offered: AuditHead | null,
): 'none' | 'newer' | 'same' | 'cut' | 'changed' {
  if (!offered) return 'none'
  if (!kept) return 'newer'
  if (offered.chain !== kept.chain) return 'changed'
  if (offered.seq > kept.seq) return 'newer'
  if (offered.seq < kept.seq) return 'cut'
  return offered.hash === kept.hash ? 'same' : 'changed'
}
