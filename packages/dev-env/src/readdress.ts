import { existsSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

interface UnitFile {
  spec: { env: Record<string, string> }
}

/** Sends the agents of installs, while none of them runs, to where the server is now. Returns how many were elsewhere. */
export function readdressInstalls(customer: string, url: string): number {
  const installs = join(customer, 'installs')
  const files = existsSync(installs)
    ? readdirSync(installs).map((id) => join(installs, id, 'system', 'agent', 'unit.json'))
    : []
  return files.filter((file) => readdress(file, url)).length
}

function readdress(file: string, url: string): boolean {
  const unit = readUnit(file)
  if (!unit || unit.spec.env['TENON_SERVER_URL'] === url) return false
  unit.spec.env['TENON_SERVER_URL'] = url
  writeFileSync(`${file}.new`, JSON.stringify(unit, null, 2), { mode: 0o600 })
  renameSync(`${file}.new`, file)
  return true
}

/** What cannot be read is left to the local-host, which sets it aside and says so. */
function readUnit(file: string): UnitFile | undefined {
  try {
    const unit = JSON.parse(readFileSync(file, 'utf8')) as Partial<UnitFile>
    return typeof unit.spec?.env?.['TENON_SERVER_URL'] === 'string' ? (unit as UnitFile) : undefined
  } catch {
    return undefined
  }
}
