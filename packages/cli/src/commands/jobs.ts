import { Option, type Command } from '@commander-js/extra-typings'
import { documentDigest, sizeWords } from '@tenon/core'
import { jobStatus, type JobView } from '@tenon/protocol'
import { recognise } from '../audit/recognise.ts'
import type { Cli } from '../cli.ts'
import { sha256, verifyEd25519 } from '../crypto.ts'
import { CliError } from '../errors.ts'
import { EXIT } from '../exit-codes.ts'
import { examples } from '../help-text.ts'
import { paintStatus } from '../output/paint.ts'
import { ago, between } from '../output/words.ts'
import { AFTER, LIMIT, pageQuery, showPage, type PageOptions } from './paging.ts'
import { takeId } from './ids.ts'

export function addJobs(program: Command, cli: Cli): void {
  const jobs = program
    .command('jobs')
    .description('units of work, each run once by an agent')
    .addHelpText('after', examples('tenon jobs list --status running', 'tenon jobs why job_01…'))
  jobs
    .command('list')
    .description('list jobs, newest first')
    .option('--install <install>', 'only those of this install')
    .option('--component <component>', 'only those about this component')
    .addOption(new Option('--status <status>', 'only those in this state').choices(jobStatus.options))
    .option(...LIMIT)
    .option(...AFTER)
    .addHelpText('after', examples('tenon jobs list', 'tenon jobs list --install acme --status lost'))
    .action((options) => list(cli, options))
  jobs
    .command('show')
    .description('one job')
    .argument('<job>', 'its id', takeId('job'))
    .addHelpText('after', examples('tenon jobs show job_01…'))
    .action(async (id) => {
      const client = await cli.client()
      show(cli, await client.call('jobs.get', { params: { id } }))
    })
  jobs
    .command('why')
    .description('what a job waits for, and since when')
    .argument('<job>', 'its id', takeId('job'))
    .addHelpText('after', examples('tenon jobs why job_01…'))
    .action(async (id) => {
      const client = await cli.client()
      why(cli, await client.call('jobs.get', { params: { id } }))
    })
  addJobChanges(jobs as unknown as Command, cli)
  jobs
    .command('manifest')
    .description('the signed manifest of a job, after checking its digest and signature')
    .argument('<job>', 'its id', takeId('job'))
    .addHelpText('after', examples('tenon jobs manifest job_01… | jq .operations'))
    .action((id) => manifest(cli, id))
}

function addJobChanges(jobs: Command, cli: Cli): void {
  jobs
    .command('cancel')
    .description('cancel a job')
    .argument('<job>', 'its id', takeId('job'))
    .addHelpText('after', examples('tenon jobs cancel job_01…'))
    .action(async (id) => {
      const client = await cli.client()
      const job = await client.call('jobs.cancel', { params: { id } })
      if (cli.globals.json) return cli.out.json(job)
      cli.out.line(`job ${job.id} is ${job.status === 'canceled' ? 'canceled' : 'being canceled'}`)
    })
  jobs
    .command('settle')
    .description(
      'declare how a job that is lost, or held by an agent that is away, ended, after looking for yourself',
    )
    .argument('<job>', 'its id', takeId('job'))
    .addOption(
      new Option('--outcome <outcome>', 'how it ended')
        .choices(['succeeded', 'failed', 'canceled'])
        .makeOptionMandatory(),
    )
    .requiredOption('--reason <words>', 'what you saw; it is kept in the audit')
    .addHelpText(
      'after',
      examples('tenon jobs settle job_01… --outcome failed --reason "the machine was deleted"'),
    )
    .action(async (id, { outcome, reason }) => {
      const client = await cli.client()
      const job = await client.call('jobs.settle', { params: { id }, body: { outcome, reason } })
      if (cli.globals.json) return cli.out.json(job)
      cli.out.line(`job ${job.id} is settled as ${job.status}`)
    })
}

async function list(
  cli: Cli,
  options: PageOptions & {
    install?: string | undefined
    component?: string | undefined
    status?: (typeof jobStatus.options)[number] | undefined
  },
): Promise<void> {
  const client = await cli.client()
  const { install, component, status } = options
  const filter = {
    ...(install === undefined ? {} : { install }),
    ...(component === undefined ? {} : { component }),
    ...(status === undefined ? {} : { status }),
  }
  const page = await client.call('jobs.list', { query: { ...pageQuery(options), ...filter } })
  const now = cli.io.clock.now()
  showPage(
    cli,
    page,
    [
      { title: 'ID', value: (j) => j.id },
      { title: 'KIND', value: (j) => j.kind },
      { title: 'INSTALL', value: (j) => j.install ?? j.installId },
      { title: 'COMPONENT', value: (j) => j.component },
      {
        title: 'STATUS',
        value: (j) => j.status,
        paint: (text, j) => paintStatus(cli.out.paint, j.status, text),
      },
      { title: 'REASON', value: (j) => j.reason },
      { title: 'TOOK', value: (j) => between(j.startedAt, j.finishedAt, now) },
      { title: 'CREATED', value: (j) => ago(j.createdAt, now) },
      { title: 'MESSAGE', value: (j) => j.message || j.waiting?.message, shrink: true },
    ],
    'no jobs',
  )
}

function show(cli: Cli, job: JobView): void {
  const { out } = cli
  if (cli.globals.json) return out.json(job)
  out.fields([
    ['id', job.id],
    ['kind', job.kind],
    ['status', job.status],
    ['reason', job.reason],
    ['exit code', job.exitCode],
    ['message', job.message],
    ['fencing number', job.fence],
    ['agent', job.agentId === null ? `none yet (role ${job.role})` : `${job.agentId} (role ${job.role})`],
    ['install', job.install === null ? job.installId : `${job.install} (${job.installId})`],
    ['component', job.component],
    ['run, step', job.runId && `${job.runId}, ${job.stepId}`],
    ['build', job.buildId],
    ['manifest', job.manifestDigest],
    ['confinement', job.confinement],
    ['log', sizeWords(job.logBytes)],
    ['created', job.createdAt],
    ['assigned', job.assignedAt],
    ['started', job.startedAt],
    ['lease until', job.leaseUntil],
    ['finished', job.finishedAt],
    ['waiting for', job.waiting?.message],
  ])
  out.note(`next: tenon logs ${job.id}`)
}

function why(cli: Cli, job: JobView): void {
  const { out } = cli
  if (cli.globals.json) return out.json(job.waiting)
  if (job.waiting === null) return out.line(`job ${job.id} waits for nothing: it is ${job.status}`)
  const now = cli.io.clock.now()
  out.fields([
    ['status', job.status],
    ['waiting for', job.waiting.message],
    ['since', `${job.waiting.since} (${ago(job.waiting.since, now)})`],
    ['what to do', job.waiting.remedy ?? 'nothing: it goes on by itself'],
  ])
}

async function manifest(cli: Cli, id: string): Promise<void> {
  const client = await cli.client()
  const signed = await client.call('jobs.manifest', { params: { id } })
  const { known } = await recognise(cli, client)
  if (documentDigest(signed.text, sha256) !== signed.digest) {
    throw new CliError(EXIT.failed, 'the manifest does not have the digest that names it', {
      next: 'tenon audit verify',
    })
  }
  const key = Object.hasOwn(known.keys, signed.keyId) ? known.keys[signed.keyId] : undefined
  const signedBytes = new TextEncoder().encode(`tenon/job-manifest/1\n${signed.text}`)
  if (key === undefined || !verifyEd25519(key, signedBytes, signed.signature)) {
    throw new CliError(EXIT.failed, 'the manifest is not signed by a key of the server', {
      next: 'tenon audit verify',
    })
  }
  if (cli.globals.json) return cli.out.json(signed)
  cli.out.json(JSON.parse(signed.text))
  cli.out.note(`${signed.digest}, signed with ${signed.keyId}`)
}
