import { expect, it } from 'vitest'
import type { Suite } from './contract.testing.ts'
import { RuntimeError } from './runtime.ts'

/** Part of the contract suite: what a job sees of its machine, and what not. */
export function describeIsolation(suite: Suite, readLog: (jobId: string) => Promise<string>): void {
  it('gives a job exactly its own environment', async ({ skip }) => {
    const { runtime, harness } = suite
    const program = harness.programs.printEnv?.() ?? skip('no real processes')
    const spec = suite.spec(program, { env: { PATH: '/usr/bin:/bin', A: `it's "$HOME"`, B: '' } })
    const { folder } = await runtime.start(spec)
    const lines = (await readLog(spec.jobId)).trim().split('\n').toSorted()
    const own = [`HOME=${folder}`, `TMPDIR=${folder}/tmp`]
    expect(lines).toEqual([`A=it's "$HOME"`, 'B=', ...own, 'PATH=/usr/bin:/bin'].toSorted())
  })

  it('places files in the folder of the job, for its user alone', async ({ skip }) => {
    const { runtime, harness } = suite
    const program = harness.programs.printFile?.('secrets/token') ?? skip('no real files')
    const spec = suite.spec(program, { files: { 'secrets/token': 'abc' } })
    await runtime.start(spec)
    expect(await readLog(spec.jobId)).toBe('600 abc\n')
  })

  it('refuses a file that leads out of the folder', async ({ skip }) => {
    const { runtime, harness } = suite
    const program = harness.programs.printFile?.('x') ?? skip('no real files')
    const spec = suite.spec(program, { files: { '../../outside': 'x' } })
    await expect(runtime.start(spec)).rejects.toThrow(RuntimeError)
    expect(await harness.traces(spec.jobId)).toEqual([])
  })

  it('keeps a job from seeing the folder of another', async ({ skip }) => {
    const { runtime, harness } = suite
    if (!harness.isConfined || harness.programs.look === undefined) return skip('not confined here')
    const other = suite.spec(harness.programs.hold())
    const { folder } = await runtime.start(other)
    const spec = suite.spec(harness.programs.look(folder))
    await runtime.start(spec)
    expect(await readLog(spec.jobId)).toBe('hidden\n')
    if (harness.seesHostFolders === false) return
    const invited = suite.spec(harness.programs.look(folder), { mounts: [{ path: folder, writable: false }] })
    await runtime.start(invited)
    expect(await readLog(invited.jobId)).toBe('seen\n')
  })
}
