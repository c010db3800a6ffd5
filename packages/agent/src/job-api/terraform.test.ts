import { execFile, spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import net from 'node:net'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ApiWorld, socketOf, type ApiJob } from '../testing/api-world.ts'
import { waitUntil } from '../testing/wait-until.ts'

const isHere = spawnSync('terraform', ['version']).status === 0
const MARKER = 'marker-of-the-state-4711'

let world: ApiWorld
let closers: (() => Promise<void>)[]

beforeEach(async () => {
  world = await ApiWorld.create()
  closers = []
  await world.start()
})
afterEach(async () => {
  for (const close of closers) await close()
  await world.close()
})

/** Terraform as a job of its own would run it: own folder, own token, over TCP since it knows no unix sockets. */
async function workspace(job: ApiJob, name: string, input = MARKER) {
  const folder = path.join(world.dir, name)
  await mkdir(folder)
  const config = `
    terraform {
      backend "http" {}
    }
    resource "terraform_data" "it" {
      input = "${input}"
      provisioner "local-exec" {
        command = "touch ${folder}/reached; while [ -e ${folder}/hold ]; do sleep 0.02; done"
      }
    }
    output "id" { value = terraform_data.it.id }`
  await writeFile(path.join(folder, 'main.tf'), config)
  const address = `http://127.0.0.1:${await tcpTo(socketOf(job))}/v1/terraform/web`
  const env = {
    PATH: process.env['PATH'],
    HOME: folder,
    TF_CLI_CONFIG_FILE: '/dev/null',
    CHECKPOINT_DISABLE: '1',
    TF_HTTP_ADDRESS: address,
    TF_HTTP_LOCK_ADDRESS: address,
    TF_HTTP_UNLOCK_ADDRESS: address,
    TF_HTTP_USERNAME: 'tenon',
    TF_HTTP_PASSWORD: job.spec.files['token'],
  }
  const run = async (...args: string[]) => {
    const ended = promisify(execFile)('terraform', args, { cwd: folder, env })
    return ended.then(
      ({ stdout }) => ({ code: 0, text: stdout }),
      (error: { code: number; stderr: string }) => ({ code: error.code, text: error.stderr }),
    )
  }
  const init = await run('init', '-no-color', '-input=false')
  expect(init).toMatchObject({ code: 0 })
  const start = (): ChildProcess =>
    spawn('terraform', ['apply', '-auto-approve'], { cwd: folder, env, detached: true, stdio: 'ignore' })
  return { folder, run, start, apply: () => run('apply', '-no-color', '-auto-approve', '-input=false') }
}

async function tcpTo(socket: string): Promise<number> {
  const open = new Set<net.Socket>()
  const server = net.createServer((outside) => {
    const inside = net.connect(socket)
    for (const [from, to] of [[outside, inside] as const, [inside, outside] as const]) {
      open.add(from)
      from.on('error', () => to.destroy())
      from.pipe(to)
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closers.push(async () => {
    for (const each of open) each.destroy()
    await new Promise((resolve) => server.close(resolve))
  })
  return (server.address() as net.AddressInfo).port
}

describe.skipIf(!isHere)('terraform itself, in jobs', { timeout: 60_000 }, () => {
  it('finds in the second job what the first one left; nothing of it is readable on the disk', async () => {
    const first = await world.job()
    const made = await workspace(first, 'first')
    const applied = await made.apply()
    expect(applied).toMatchObject({ code: 0 })
    const { text: id } = await made.run('output', '-raw', 'id')
    await world.end(first)

    const second = await workspace(await world.job(), 'second')
    expect((await second.run('output', '-raw', 'id')).text).toBe(id)
    expect((await second.apply()).text).toContain('0 added, 0 changed, 0 destroyed')
    expect((await second.run('state', 'pull')).text).toContain(MARKER)
    expect(filesWith(world.agentDir, MARKER)).toEqual([])
    expect((await second.run('destroy', '-no-color', '-auto-approve')).text).toContain('1 destroyed')
  })

  it('is told who holds the lock when another live job applies, and may apply once that is dead', async () => {
    const [first, second] = [await world.job(), await world.job()]
    const holding = await workspace(first, 'holding')
    const waiting = await workspace(second, 'waiting', 'of the second job')
    await writeFile(path.join(holding.folder, 'hold'), '')
    const child = holding.start()
    const gone = new Promise((resolve) => child.once('exit', resolve))
    await waitUntil('the lock to be held', () => existsSync(path.join(holding.folder, 'reached')))

    const refused = await waiting.apply()
    expect(refused.code).toBe(1)
    expect(refused.text).toContain('Error acquiring the state lock')
    expect(refused.text).toContain('HTTP remote state already locked')

    process.kill(-child.pid!, 'SIGKILL')
    await gone
    await world.end(first)
    const applied = await waiting.apply()
    expect(applied).toMatchObject({ code: 0 })
    await rm(path.join(holding.folder, 'hold'))
  })
})

function filesWith(folder: string, text: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => {
    const file = path.join(folder, name)
    return statSync(file).isFile() && readFileSync(file).includes(text)
  })
}
