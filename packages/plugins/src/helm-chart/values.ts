import type { Json } from '@tenon/core'

type Values = { [key: string]: Json }

/**
 * `values` of a component are what `helm --set` takes: a dot leads one level down (`\.` is a dot), and text that
 * says true, false, null or a small number is that. `isText` keeps what must stay text, such as secrets.
 */
export function setValues(values: Values, isText: (text: string) => boolean): Values {
  const set = emptyValues()
  for (const [path, value] of Object.entries(values)) {
    const steps = path.split(/(?<!\\)\./).map((step) => step.replaceAll(String.raw`\.`, '.'))
    let at = set
    for (const step of steps.slice(0, -1)) {
      const below = at[step]
      const next = isValues(below) ? below : emptyValues()
      at[step] = next
      at = next
    }
    at[steps.at(-1) ?? ''] = typed(value, isText)
  }
  return set
}

function typed(value: Json, isText: (text: string) => boolean): Json {
  if (Array.isArray(value)) return value.map((child) => typed(child, isText))
  if (isValues(value)) {
    return Object.fromEntries(Object.entries(value).map(([key, child]) => [key, typed(child, isText)]))
  }
  if (typeof value !== 'string' || isText(value)) return value
  if (value === 'true') return true
  if (value === 'false') return false
  if (value === 'null') return null
  // Longer ones come out of Helm as 1e+06.
  return /^(0|-?[1-9]\d{0,5})$/.test(value) ? Number(value) : value
}

function emptyValues(): Values {
  return Object.create(null) as Values
}

function isValues(value: Json | undefined): value is Values {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
