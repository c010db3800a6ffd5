import type { Descriptor } from '../manifest.ts'
import type { Digest } from '../reference.ts'

export interface CopyProgress {
  totalBytes: number
  /** Copied or found in place; never goes backwards. */
  doneBytes: number
  totalBlobs: number
  doneBlobs: number
  /** Over the last seconds; 0 before there is anything to measure. */
  bytesPerSecond: number
  /** At that rate; `undefined` while there is none. */
  secondsLeft: number | undefined
}

export interface ProgressMeter {
  /** A blob that starts again reports less than before; its highest mark is what counts. */
  reached(blob: Descriptor, bytes: number): void
  finished(blob: Descriptor): void
}

const WINDOW_MS = 5000
const SAMPLE_MS = 100

export const createProgress = (
  blobs: Descriptor[],
  clock: () => number,
  onProgress: ((progress: CopyProgress) => void) | undefined,
): ProgressMeter => {
  const marks = new Map<Digest, number>()
  const meter = createRateMeter(clock())
  const totalBytes = blobs.reduce((sum, blob) => sum + blob.size, 0)
  let doneBytes = 0
  let doneBlobs = 0
  const report = (): void => {
    if (onProgress === undefined) return
    const bytesPerSecond = meter.rate()
    const left = totalBytes - doneBytes
    const secondsLeft = left === 0 ? 0 : bytesPerSecond === 0 ? undefined : left / bytesPerSecond
    onProgress({ totalBytes, doneBytes, totalBlobs: blobs.length, doneBlobs, bytesPerSecond, secondsLeft })
  }
  const raise = (blob: Descriptor, bytes: number): number => {
    const before = marks.get(blob.digest) ?? 0
    const mark = Math.min(blob.size, Math.max(before, bytes))
    marks.set(blob.digest, mark)
    doneBytes += mark - before
    return mark - before
  }
  report()
  return {
    reached: (blob, bytes) => {
      const more = raise(blob, bytes)
      if (more === 0) return
      meter.add(more, clock())
      report()
    },
    // What was found in place says nothing about the speed of the rest.
    finished: (blob) => {
      doneBlobs++
      raise(blob, blob.size)
      report()
    },
  }
}

/** The rate over a sliding window, so that a stall shows and an old burst is forgotten. */
export const createRateMeter = (start: number) => {
  const samples: { at: number; bytes: number }[] = [{ at: start, bytes: 0 }]
  let bytes = 0
  return {
    add: (more: number, at: number): void => {
      bytes += more
      const last = samples.at(-1)
      if (last !== undefined && samples.length > 1 && at - last.at < SAMPLE_MS) last.bytes = bytes
      else samples.push({ at, bytes })
      while (samples.length > 2 && (samples[1]?.at ?? at) < at - WINDOW_MS) samples.shift()
    },
    rate: (): number => {
      const [first, last] = [samples[0], samples.at(-1)]
      const ms = (last?.at ?? 0) - (first?.at ?? 0)
      return ms <= 0 ? 0 : (((last?.bytes ?? 0) - (first?.bytes ?? 0)) / ms) * 1000
    },
  }
}
