/** The part of pino's interface that the local-host needs. */
export interface Logger {
  info(fields: Record<string, unknown>, message: string): void
  warn(fields: Record<string, unknown>, message: string): void
  error(fields: Record<string, unknown>, message: string): void
}

/** One JSON line per entry, for the program without a logger of its own. */
export function jsonLogger(write: (line: string) => void, now: () => number): Logger {
  const entry = (level: string) => (fields: Record<string, unknown>, message: string) =>
    write(`${JSON.stringify({ time: new Date(now()).toISOString(), level, message, ...fields })}\n`)
  return { info: entry('info'), warn: entry('warn'), error: entry('error') }
}
