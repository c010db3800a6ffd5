import { once } from 'node:events'
import { WebSocket } from 'ws'
import type { Scenario } from '../scenario.ts'
import type { Stage } from '../stage.ts'
import { until } from '../until.ts'
import type { Direction, WireFrame } from '../wire.ts'
import { assert } from './shared.ts'

/** A handshake proves who is there now; one that was recorded proves nothing. */
export const handshakes: Scenario[] = [
  {
    name: 'a replayed handshake of an agent is refused, and the agent stays connected',
    app: { web: {} },
    faults: [{ when: { run: 'succeeded' }, then: [replayHello] }],
    expect: {
      run: 'succeeded',
      jobs: { 'deploy:web': { status: 'succeeded' } },
      audit: { has: ['agent.bad_signature'], hasNot: ['agent.superseded_earlier'] },
    },
    async also(stage) {
      assert(framesOf(stage, 'toAgent', 'welcome').length === 1, 'the agent had to connect again')
    },
  },
  {
    name: 'a replayed challenge of the server is not answered',
    app: { web: {} },
    faults: [{ when: { run: 'succeeded' }, then: [replayChallenge] }],
    expect: { run: 'succeeded', jobs: { 'deploy:web': { status: 'succeeded' } } },
    async also(stage) {
      await until('the agent to connect again', () => framesOf(stage, 'toAgent', 'welcome').length === 2)
      const challenges = framesOf(stage, 'toAgent', 'challenge').length
      const hellos = framesOf(stage, 'toServer', 'hello').length
      assert(
        hellos === challenges - 1,
        `${challenges} challenges, one of them replayed, got ${hellos} answers`,
      )
    },
  },
]

async function replayHello(stage: Stage): Promise<void> {
  const [open] = framesOf(stage, 'toServer', 'open')
  const [hello] = framesOf(stage, 'toServer', 'hello')
  const url = new URL('/agent/v1/channel', stage.server.url)
  url.protocol = 'ws:'
  const socket = new WebSocket(url)
  try {
    await once(socket, 'open')
    socket.send(open!.data.toString())
    const [challenge] = (await once(socket, 'message')) as [Buffer]
    assert(typeOf(challenge) === 'challenge', 'the server did not challenge')
    socket.send(hello!.data.toString())
    const [answer] = (await once(socket, 'message')) as [Buffer]
    const { type, code } = JSON.parse(answer.toString()) as { type: string; code: string }
    assert(type === 'reject' && code === 'bad_signature', `the server answered ${type} ${code}`)
  } finally {
    socket.terminate()
  }
}

async function replayChallenge(stage: Stage): Promise<void> {
  const wire = stage.wire()
  const [recorded] = framesOf(stage, 'toAgent', 'challenge')
  const replayed = wire.once(
    'toAgent',
    'challenge',
    () => true,
    () => ({ instead: recorded!.data.toString() }),
  )
  wire.cut()
  wire.mend()
  await replayed
}

function framesOf(stage: Stage, direction: Direction, type: string): WireFrame[] {
  return stage.wire().capture.filter((frame) => frame.direction === direction && frame.type === type)
}

function typeOf(data: Buffer): string {
  return (JSON.parse(data.toString()) as { type: string }).type
}
