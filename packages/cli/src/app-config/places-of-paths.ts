import { readdir } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'

/** Folders that a path in a config file may be relative to: the top one of its kind, its own, the app's. */
export function placesOfPaths(appFolder: string, file: string): string[] {
  const [top = '', ...rest] = file.split('/')
  const ofKind = rest.length === 0 ? appFolder : resolve(appFolder, top)
  return [...new Set([ofKind, resolve(appFolder, dirname(file)), resolve(appFolder)])]
}

/** The path as its folders write it, when upper and lower case do not count. */
export async function findRegardlessOfCase(from: string, path: string): Promise<string | undefined> {
  let at = from
  for (const step of path.split('/').filter((each) => each !== '' && each !== '.')) {
    if (step === '..') return undefined
    const names: string[] = await readdir(at).catch(() => [])
    const found = names.includes(step) ? step : names.find((name) => sameLetters(name, step))
    if (found === undefined) return undefined
    at = join(at, found)
  }
  return at
}

function sameLetters(a: string, b: string): boolean {
  return a.toLowerCase() === b.toLowerCase()
}
