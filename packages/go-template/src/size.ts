const UNITS = ['kB', 'MB', 'GB', 'TB']

/** A number of bytes as people say it. */
export function sizeWords(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`
  let value = bytes
  let unit = -1
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024
    unit++
  }
  return `${value.toFixed(1)} ${UNITS[unit]}`
}
