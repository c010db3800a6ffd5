import type { z } from 'zod'
import {
  allocatePortSchema,
  installIdSchema,
  MAX_WAIT_SECONDS,
  putInstallSchema,
  unitNameSchema,
  unitSpecSchema,
} from '@tenon/protocol/local-host'
import { HostError } from './errors.ts'
import type { Install, Wait } from './install.ts'
import type { Call, Route } from './socket-server.ts'

/** What the one-time sandbox job may ask, with the access the customer lent for it. */
export function adminRoutes(host: InstallKeeper): Route[] {
  return [
    {
      method: 'PUT',
      path: '/installs/*',
      answer: async (call) => {
        const id = nameOf(call, installIdSchema)
        const { units } = await call.body(putInstallSchema)
        const install = await host.ensure(id)
        const applied = await install.applySystem(units, waitOf(call))
        return { install: install.status(), units: applied }
      },
    },
    {
      method: 'GET',
      path: '/installs',
      answer: async () => ({ installs: host.all().map((install) => install.status()) }),
    },
    {
      method: 'GET',
      path: '/installs/*',
      answer: async (call) => host.get(nameOf(call, installIdSchema)).status(),
    },
    {
      method: 'DELETE',
      path: '/installs/*',
      answer: async (call) => ({ removed: await host.remove(nameOf(call, installIdSchema)) }),
    },
    {
      method: 'POST',
      path: '/installs/*/ports',
      answer: (call) => allocate(host.get(nameOf(call, installIdSchema)), call),
    },
  ]
}

/** What the jobs of one install may ask: its services and ports, nothing of the system units or of others. */
export function installRoutes(install: Install): Route[] {
  return [
    {
      method: 'PUT',
      path: '/services/*',
      answer: async (call) => {
        const name = nameOf(call, unitNameSchema)
        const spec = await call.body(unitSpecSchema)
        return install.apply('services', name, spec, waitOf(call))
      },
    },
    {
      method: 'GET',
      path: '/services',
      answer: async () => ({ services: install.services().map((unit) => unit.status()) }),
    },
    {
      method: 'GET',
      path: '/services/*',
      answer: async (call) => install.service(nameOf(call, unitNameSchema)).status(),
    },
    {
      method: 'GET',
      path: '/services/*/logs',
      answer: async (call) => {
        const unit = install.service(nameOf(call, unitNameSchema))
        return { lines: await unit.logs(numberOf(call, 'tail', { fallback: 200, min: 1, max: 5000 })) }
      },
    },
    {
      method: 'DELETE',
      path: '/services/*',
      answer: async (call) => ({
        removed: await install.removeUnit('services', nameOf(call, unitNameSchema)),
      }),
    },
    { method: 'POST', path: '/ports', answer: (call) => allocate(install, call) },
  ]
}

async function allocate(install: Install, call: Call): Promise<{ name: string; port: number }> {
  const { name } = await call.body(allocatePortSchema)
  return { name, port: await install.ports.allocate(name) }
}

function nameOf(call: Call, schema: z.ZodType<string>): string {
  const parsed = schema.safeParse(call.params[0])
  if (parsed.success) return parsed.data
  const remedy = 'Use letters, digits and dashes, at most 63 characters.'
  throw new HostError('invalid_name', 'The name in the path is not a plain name.', remedy)
}

function waitOf(call: Call): Wait {
  const seconds = numberOf(call, 'wait', { fallback: 0, min: 0, max: MAX_WAIT_SECONDS })
  return { seconds, signal: call.signal }
}

function numberOf(call: Call, name: string, range: { fallback: number; min: number; max: number }): number {
  const text = call.query.get(name)
  if (text === null) return range.fallback
  const value = text.trim() === '' ? Number.NaN : Number(text)
  if (value >= range.min && value <= range.max) return value
  const message = `${name} must be a number from ${range.min} to ${range.max}.`
  throw new HostError('invalid_request', message, `Correct ${name}.`)
}

/** The installs of one local-host. `ensure` makes the install when it is not there. */
export interface InstallKeeper {
  all(): Install[]
  get(id: string): Install
  ensure(id: string): Promise<Install>
  remove(id: string): Promise<boolean>
}
