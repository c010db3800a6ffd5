import { copyFile, open, readFile, rename, type FileHandle } from 'node:fs/promises'
import path from 'node:path'
import { sha256 } from '../ground/crypto.ts'
import { syncFolder } from '../ground/durable-file.ts'
import { AgentError } from '../ground/errors.ts'

const COMPACT_FROM_BYTES = 1_048_576
const NOTE_DELAY_MS = 1000

export interface JournalOptions<E> {
  file: string
  /** Called in order for each stored entry at opening, and at once for each new one. Applying one twice must change nothing. */
  apply: (entry: E) => void
  /** The fewest entries that rebuild the present state. */
  snapshot: () => E[]
  compactFromBytes?: number
}

/** A line that is neither whole nor the last one: the disk or somebody changed it. */
export interface JournalProblem {
  line: number
  message: string
}

/**
 * An append-only file of checksummed lines. What `append` resolved survives a crash; a torn last line was never
 * resolved and is cut off. After a failed write every further one fails: the process must end and read anew.
 */
export class Journal<E extends object> {
  readonly problems: readonly JournalProblem[]
  readonly #options: JournalOptions<E>
  #handle: FileHandle
  #size: number
  #compactAt: number
  #pending: { line: string; resolve: () => void; reject: (error: AgentError) => void }[] = []
  #flushing: Promise<void> | undefined
  #noteTimer: NodeJS.Timeout | undefined
  #failure: AgentError | undefined

  private constructor(
    options: JournalOptions<E>,
    handle: FileHandle,
    size: number,
    problems: JournalProblem[],
  ) {
    this.#options = options
    this.#handle = handle
    this.#size = size
    this.#compactAt = Math.max(options.compactFromBytes ?? COMPACT_FROM_BYTES, size)
    this.problems = problems
  }

  static async open<E extends object>(options: JournalOptions<E>): Promise<Journal<E>> {
    const bytes = await readFile(options.file).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return Buffer.alloc(0)
      throw error
    })
    const read = readLines<E>(bytes)
    if (read.problems.length > 0) await copyFile(options.file, `${options.file}.broken`)
    for (const entry of read.entries) options.apply(entry)
    const handle = await open(options.file, bytes.byteLength === 0 ? 'w+' : 'r+', 0o600)
    await handle.truncate(read.goodBytes)
    await handle.sync()
    await syncFolder(path.dirname(options.file))
    return new Journal(options, handle, read.goodBytes, read.problems)
  }

  /** In memory at once; on disk when it resolves. Act on it only then. */
  append(entry: E): Promise<void> {
    const stored = new Promise<void>((resolve, reject) => this.#enqueue(entry, resolve, reject))
    this.#kick()
    return stored
  }

  /** For what may be lost in a crash: written with the next append, or within a second. */
  note(entry: E): void {
    this.#enqueue(
      entry,
      () => undefined,
      () => undefined,
    )
    if (!this.#failure) this.#noteTimer ??= setTimeout(() => this.#kick(), NOTE_DELAY_MS)
  }

  get bytes(): number {
    return this.#size
  }

  async close(): Promise<void> {
    this.#kick()
    while (this.#flushing) await this.#flushing
    this.#failure ??= failed(this.#options.file, new Error('it is closed'))
    await this.#handle.close()
  }

  #enqueue(entry: E, resolve: () => void, reject: (error: AgentError) => void): void {
    if (this.#failure) return reject(this.#failure)
    this.#options.apply(entry)
    this.#pending.push({ line: formatLine(entry), resolve, reject })
  }

  #kick(): void {
    clearTimeout(this.#noteTimer)
    this.#noteTimer = undefined
    if (this.#flushing || this.#pending.length === 0) return
    this.#flushing = this.#flush().finally(() => {
      this.#flushing = undefined
      if (this.#pending.length > 0 && !this.#failure) this.#kick()
    })
  }

  /** One write and one sync for everything that came meanwhile. */
  async #flush(): Promise<void> {
    while (this.#pending.length > 0) {
      const batch = this.#pending.splice(0)
      try {
        await this.#write(Buffer.from(batch.map((item) => item.line).join('')))
        for (const item of batch) item.resolve()
        if (this.#size >= this.#compactAt) await this.#compact()
      } catch (error) {
        this.#failure = failed(this.#options.file, error)
        for (const item of [...batch, ...this.#pending.splice(0)]) item.reject(this.#failure)
      }
    }
  }

  async #write(bytes: Buffer): Promise<void> {
    for (let done = 0; done < bytes.byteLength;) {
      const { bytesWritten } = await this.#handle.write(
        bytes,
        done,
        bytes.byteLength - done,
        this.#size + done,
      )
      done += bytesWritten
    }
    await this.#handle.datasync()
    this.#size += bytes.byteLength
  }

  async #compact(): Promise<void> {
    const { file, snapshot, compactFromBytes = COMPACT_FROM_BYTES } = this.#options
    const bytes = Buffer.from(snapshot().map(formatLine).join(''))
    const next = await open(`${file}.new`, 'w+', 0o600)
    try {
      await next.writeFile(bytes)
      await next.sync()
      await rename(`${file}.new`, file)
      await syncFolder(path.dirname(file))
    } catch (error) {
      await next.close()
      throw error
    }
    await this.#handle.close()
    this.#handle = next
    this.#size = bytes.byteLength
    this.#compactAt = Math.max(compactFromBytes, bytes.byteLength * 2)
  }
}

function formatLine(entry: object): string {
  const text = JSON.stringify(entry)
  return `${checksum(text)} ${text}\n`
}

function checksum(text: string): string {
  return sha256(Buffer.from(text)).slice(0, 16)
}

/** Pure: the whole lines, what is wrong in the middle, and where the good part ends. */
export function readLines<E>(bytes: Buffer): { entries: E[]; problems: JournalProblem[]; goodBytes: number } {
  const entries: E[] = []
  const broken: JournalProblem[] = []
  let goodBytes = 0
  let goodProblems = 0
  let line = 0
  for (let start = 0; start < bytes.byteLength;) {
    const end = bytes.indexOf(0x0a, start)
    if (end < 0) break
    line += 1
    const entry = parseLine<E>(bytes.toString('utf8', start, end))
    if (entry === undefined) {
      broken.push({ line, message: 'its checksum does not match' })
    } else {
      entries.push(entry)
      goodBytes = end + 1
      goodProblems = broken.length
    }
    start = end + 1
  }
  return { entries, problems: broken.slice(0, goodProblems), goodBytes }
}

function parseLine<E>(line: string): E | undefined {
  const text = line.slice(17)
  if (line.slice(0, 17) !== `${checksum(text)} `) return undefined
  try {
    return JSON.parse(text) as E
  } catch {
    return undefined
  }
}

function failed(file: string, cause: unknown): AgentError {
  return new AgentError(
    'journal_failed',
    `The journal ${file} could not be written: ${(cause as Error).message}.`,
    'Free disk space or repair the disk, then start the agent again; running jobs go on meanwhile.',
    { cause },
  )
}
