/** Times and sizes as people say them. */
export function ago(at: string | null, now: number): string {
  return at === null ? '-' : `${duration(Math.max(0, now - Date.parse(at)))} ago`
}

export function until(at: string | null, now: number): string {
  if (at === null) return 'never'
  const left = Date.parse(at) - now
  return left > 0 ? `in ${duration(left)}` : `${duration(-left)} ago`
}

export function between(from: string | null, to: string | null, now: number): string {
  if (from === null) return ''
  return duration(Math.max(0, (to === null ? now : Date.parse(to)) - Date.parse(from)))
}

export function duration(ms: number): string {
  const seconds = Math.floor(ms / 1000)
  if (seconds < 60) return `${seconds}s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return `${minutes}m${String(seconds % 60).padStart(2, '0')}s`
  const hours = Math.floor(minutes / 60)
  if (hours < 48) return `${hours}h${String(minutes % 60).padStart(2, '0')}m`
  return `${Math.floor(hours / 24)}d`
}

export function shortDigest(digest: string | null): string {
  return digest === null ? '-' : digest.slice(0, 19)
}

export function plural(count: number, one: string, many: string = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`
}
