import { configDefaults, defineConfig } from 'vitest/config'

const STAGES = ['engine', 'cluster', 'skew']
/** Set by scripts/test.mjs; without it a file runs whatever its stage. */
const stage = process.env['TENON_TEST_STAGE']
const isStage = stage !== undefined && STAGES.includes(stage)

export default defineConfig({
  test: {
    include: isStage
      ? [`{packages/*/src,test}/**/*.${stage}.test.ts`]
      : ['packages/*/src/**/*.test.ts', 'test/**/*.test.ts'],
    exclude: [
      ...configDefaults.exclude,
      ...(stage === 'everyday' ? STAGES.map((name) => `**/*.${name}.test.ts`) : []),
    ],
    // Engines and two versions at once load the whole machine, so those files run one at a time. A cluster mostly lets wait.
    fileParallelism: !isStage || stage === 'cluster',
    globalSetup: ['packages/server/src/postgres/vitest-global-setup.ts'],
    // Past every wait inside a test: what it waited for in vain is then what is told.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    maxWorkers: 2,
  },
})
