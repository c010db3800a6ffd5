import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { parse, TomlError } from 'smol-toml'
import type { z } from 'zod'
import { errorCode } from '../errors.ts'
import { locate } from './locate.ts'
import type { ConfigProblem } from './problem.ts'

const MOST_BYTES = 1024 * 1024

export interface TomlFile {
  /** Relative to the app's folder. */
  file: string
  text: string
  value: unknown
}

/** Undefined when it is absent or broken; the latter adds a problem. */
export async function readToml(
  folder: string,
  file: string,
  problems: ConfigProblem[],
): Promise<TomlFile | undefined> {
  const path = join(folder, file)
  let text: string
  try {
    if ((await stat(path)).size > MOST_BYTES) {
      problems.push({ file, line: 1, column: 1, message: 'the file is too large', expected: 'at most 1 MB' })
      return undefined
    }
    text = await readFile(path, 'utf8')
  } catch (cause) {
    if (errorCode(cause) !== 'ENOENT') {
      problems.push({
        file,
        line: 1,
        column: 1,
        message: `cannot be read (${errorCode(cause)})`,
        expected: 'a readable file',
      })
    }
    return undefined
  }
  try {
    return { file, text, value: parse(text) }
  } catch (error) {
    if (!(error instanceof TomlError)) throw error
    const reason = error.message.replace(/^Invalid TOML document: /, '').split('\n')[0] ?? ''
    problems.push({ file, line: error.line, column: error.column, message: reason, expected: 'valid TOML' })
    return undefined
  }
}

/** Checks a file's value; each issue becomes a problem at the place of the key it is about. */
export function checkToml<T extends z.ZodType>(
  source: TomlFile,
  schema: T,
  problems: ConfigProblem[],
): z.output<T> | undefined {
  const result = schema.safeParse(source.value)
  if (result.success) return result.data
  for (const issue of result.error.issues) {
    const path = issue.path.map((key) => (typeof key === 'symbol' ? String(key) : key))
    const place = locate(source.text, path)
    problems.push({ file: source.file, ...place, ...describeIssue(issue, path, source.value) })
  }
  return undefined
}

function describeIssue(
  issue: z.core.$ZodIssue,
  path: readonly (string | number)[],
  value: unknown,
): { message: string; expected: string } {
  const name = path.join('.') || 'the file'
  const absent =
    path.reduce<unknown>((at, key) => (at as Record<string, unknown> | undefined)?.[key], value) === undefined
  const expected = expectation(issue)
  if (absent) return { message: `${name} is missing`, expected }
  return { message: `${name} has a wrong value`, expected }
}

function expectation(issue: z.core.$ZodIssue): string {
  if (issue.code === 'invalid_type') return ARTICLES[issue.expected] ?? issue.expected
  if (issue.code === 'invalid_value') return issue.values.map((v) => JSON.stringify(v)).join(' or ')
  return issue.message.replace(/^must be /, '')
}

const ARTICLES: Record<string, string> = {
  string: 'a string',
  number: 'a number',
  boolean: 'true or false',
  array: 'a list',
  object: 'a table',
}
