/** Parts of objects whose form nobody has checked: what is not there is empty. */
export type Fields = { [key: string]: unknown }

export function fields(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? (value as Fields) : {}
}

export function list(value: unknown): Fields[] {
  return Array.isArray(value) ? (value as Fields[]) : []
}

export function said(...values: unknown[]): string {
  const value = values.find((each) => typeof each === 'string' || typeof each === 'number')
  return value === undefined ? '' : String(value as string | number)
}

export function number(value: unknown, otherwise = 0): number {
  return typeof value === 'number' ? value : otherwise
}
