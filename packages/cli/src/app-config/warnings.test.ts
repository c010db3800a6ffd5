import { expect, it } from 'vitest'
import { folderWith } from '../testing/app-folder.ts'
import { FULL_APP } from '../testing/full-app.ts'
import { loadApp } from './load-app.ts'
import { formatWarning } from './problem.ts'

it('warns of older spellings and of what is set aside, once for each place', async () => {
  const loaded = await loadApp(await folderWith(FULL_APP))
  const lines = loaded.warnings.map(formatWarning).filter((line) => !line.startsWith('installer.toml'))
  expect(lines).toEqual([
    'actions/backup.toml:2:27: bad template: unclosed action; expected a Go template',
    'actions/backup.toml:5:1: label is set aside: write labels',
    'actions/backup.toml:12:1: inputs is set aside: action inputs are kept, but nothing asks for them',
    'actions/backup.toml:23:1: triggers.schedule is set aside: write cron_schedule',
    'actions/backup.toml:25:1: triggers.type = "pre-component-deploy" is an older spelling; write "pre-deploy-component"',
    'actions/backup.toml:33:1: steps.enable_kube_config is set aside: write it once, for the action',
    'components/img.toml:2:1: type = "external_image" is an older spelling; write "container_image"',
    'components/pulumi.toml:2:1: pulumi components are kept, but a deploy refuses them for now',
    'metadata.toml:4:30: bad template: function "as" not defined; expected a Go template',
    'policies.toml:3:1: policy.engine = "kyverno" is kept: only cel is evaluated for now',
    'policies/all.toml:1:1: a policy without engine is kept: only engine = "cel" is evaluated for now',
    'runner.toml:7:1: env_var is set aside: write [env_vars]',
  ])
  expect(loaded.warnings.filter(({ file }) => file === 'installer.toml')).toHaveLength(15)
})
