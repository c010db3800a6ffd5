import type { OperationContext, OperationResult } from '../sdk/plugin.ts'

export async function build(_context: OperationContext): Promise<OperationResult> {
  return { ok: false, message: 'not yet', data: {} }
}
