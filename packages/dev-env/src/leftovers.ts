import { readdirSync, readFileSync } from 'node:fs'

/** Processes whose command or environment names a folder: everything that was started for it, by whomever. */
export function processesOf(folder: string): { pid: number; command: string }[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .flatMap((name) => {
      const command = read(`/proc/${name}/cmdline`)
      const isOfFolder = command.includes(folder) || read(`/proc/${name}/environ`).includes(folder)
      return isOfFolder ? [{ pid: Number(name), command: command.replaceAll('\0', ' ').trim() }] : []
    })
}

/** Empty for a process that ends meanwhile, or is a zombie. */
function read(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return ''
  }
}
