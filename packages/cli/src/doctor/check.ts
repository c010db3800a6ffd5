export interface Check {
  name: string
  status: 'ok' | 'warn' | 'fail'
  message: string
  /** What to do about it; null when all is well. */
  remedy: string | null
}

export function ok(name: string, message: string): Check {
  return { name, status: 'ok', message, remedy: null }
}

export function warn(name: string, message: string, remedy: string): Check {
  return { name, status: 'warn', message, remedy }
}

export function fail(name: string, message: string, remedy: string): Check {
  return { name, status: 'fail', message, remedy }
}
