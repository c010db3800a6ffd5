import { fn, type Functions } from '../functions/functions.ts'

/** Go's `path.Clean`: the shortest path that means the same, by its text alone. */
function clean(path: string): string {
  const isRooted = path.startsWith('/')
  const parts: string[] = []
  for (const part of path.split('/')) {
    if (part === '' || part === '.') continue
    if (part !== '..') parts.push(part)
    else if (parts.length > 0 && parts.at(-1) !== '..') parts.pop()
    else if (!isRooted) parts.push('..')
  }
  return (isRooted ? '/' : '') + parts.join('/') || '.'
}

function base(path: string): string {
  if (path === '') return '.'
  return path.split('/').findLast((part) => part !== '') ?? '/'
}

const directory = (path: string): string => clean(path.slice(0, path.lastIndexOf('/') + 1))

function extension(path: string): string {
  const name = path.slice(path.lastIndexOf('/') + 1)
  const dot = name.lastIndexOf('.')
  return dot < 0 ? '' : name.slice(dot)
}

const changes = (change: (path: string) => string) => fn(['string'], change)
const toBase = changes(base)
const toDirectory = changes(directory)
const toClean = changes(clean)
const toExtension = changes(extension)
const isAbs = fn(['string'], (path) => path.startsWith('/'))

/** The system's paths are slash paths too: what is rendered runs on Linux. */
export const PATH_FUNCTIONS: Functions = {
  base: toBase,
  dir: toDirectory,
  clean: toClean,
  ext: toExtension,
  isAbs,
  osBase: toBase,
  osDir: toDirectory,
  osClean: toClean,
  osExt: toExtension,
  osIsAbs: isAbs,
}
