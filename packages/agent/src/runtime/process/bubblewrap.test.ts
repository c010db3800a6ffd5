import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { pino } from 'pino'
import { afterAll, describe, expect, it } from 'vitest'
import { bubblewrapArguments, detectBubblewrap, toolFolders } from './bubblewrap.ts'
import { createProcessRuntime } from './process-runtime.ts'

const isHere = 'program' in (await detectBubblewrap())
const dir = await mkdtemp(path.join(tmpdir(), 'tenon-walls-'))
afterAll(() => rm(dir, { recursive: true, force: true }))

describe('bubblewrap', () => {
  it('is told to be absent where it is not installed', async () => {
    expect(await detectBubblewrap(['/no/bwrap'])).toMatchObject({ missing: 'absent' })
  })

  it('is told to be forbidden where it cannot make namespaces', async () => {
    expect(await detectBubblewrap(['/bin/false'])).toMatchObject({ missing: 'forbidden' })
  })

  it('takes the network of the machine only from a job with its own, and never dies with the agent', () => {
    const confinement = { workFolder: '/w', tools: [], mounts: [], env: {} }
    expect(bubblewrapArguments({ ...confinement, hasOwnNetwork: true })).toContain('--unshare-net')
    const open = bubblewrapArguments({ ...confinement, hasOwnNetwork: false })
    expect(open).not.toContain('--unshare-net')
    expect(open).not.toContain('--die-with-parent')
  })

  it('gives the one capability that nesting needs to a job that may nest, and none to others', () => {
    const confinement = { workFolder: '/w', tools: [], mounts: [], env: {}, hasOwnNetwork: true }
    expect(bubblewrapArguments(confinement)).not.toContain('--cap-add')
    expect(bubblewrapArguments({ ...confinement, mayNestUsers: true }).join(' ')).toContain(
      '--cap-drop ALL --as-pid-1 --hostname job --cap-add CAP_SETFCAP',
    )
  })

  it('mounts only folders of tools that the system does not show anyway', () => {
    expect(toolFolders(['/usr/bin/node', '/opt/node/bin/node'])).toEqual(['/opt/node/bin'])
  })
})

describe.skipIf(!isHere)('a job confined by bubblewrap', { timeout: 90_000 }, () => {
  const questions = [
    ['has no capabilities', 'grep CapEff /proc/self/status', /^CapEff:\t0+\n$/],
    ['sees no password hashes', 'test -e /etc/shadow || echo hidden', /^hidden\n$/],
    ['cannot write to the system', 'touch /usr/x 2>/dev/null || echo refused', /^refused\n$/],
    ['has a network of its own', 'ls /sys/class/net 2>/dev/null; cut -d: -sf1 /proc/net/dev', /^ *lo\n$/],
    ['sees no processes but its own', 'ls /proc | grep -c "^[0-9][0-9]*$"', /^[1-5]\n$/],
    [
      'inherits no descriptor of its launcher',
      'for fd in 3 8 9; do test -e /proc/$$/fd/$fd && echo $fd; done; echo .',
      /^\.\n$/,
    ],
  ] as const

  it.each(questions)('%s', async (name, script, answer) => {
    const runtime = createProcessRuntime({ dir, log: pino({ level: 'silent' }), useCgroups: false })
    const jobId = name.replaceAll(' ', '-')
    await runtime.start({
      jobId,
      fence: 1,
      command: ['/bin/sh', '-c', script],
      env: { PATH: '/usr/bin:/bin' },
      files: {},
      mounts: [],
      network: 'internal',
      ownNetwork: { env: {}, isDemanded: true },
      limits: { memoryBytes: 256 << 20, cpus: 1, pids: 64, timeoutSeconds: 60, graceSeconds: 1 },
    })
    let text = ''
    for await (const bytes of runtime.logs(jobId, 0, new AbortController().signal)) {
      text += Buffer.from(bytes).toString()
    }
    await runtime.remove(jobId)
    expect(text).toMatch(answer)
  })
})
