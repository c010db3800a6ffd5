import { createReadStream } from 'node:fs'
import { lstat, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { unpackTarGz } from '@tenon/oci'
import { invalidChart } from './chart.ts'

/** What Helm itself takes at most. */
const LIMITS = { maxEntries: 20_000, maxBytes: 100 * 1024 * 1024 }

/** Unpacks the archive of a chart with the care that any archive needs; the folder of the chart in it. */
export async function unpackChart(file: string, into: string): Promise<string> {
  await unpackTarGz(createReadStream(file), into, LIMITS)
  const [top, ...more] = await readdir(into)
  if (top === undefined || more.length > 0 || !(await lstat(join(into, top))).isDirectory()) {
    throw invalidChart('its archive does not hold exactly one folder')
  }
  return join(into, top)
}
