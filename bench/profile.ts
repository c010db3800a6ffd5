import { Session } from 'node:inspector/promises'
import { writeFileSync } from 'node:fs'

let session: Session | undefined

/** A CPU profile of this process between two commands: of what a bench counts, not of how it prepared it. */
export const profileHandlers = {
  async profileStart() {
    session = new Session()
    session.connect()
    await session.post('Profiler.enable')
    await session.post('Profiler.start')
  },
  async profileStop(file: string) {
    const { profile } = await session!.post('Profiler.stop')
    writeFileSync(file, JSON.stringify(profile), { mode: 0o600 })
    session!.disconnect()
  },
}
