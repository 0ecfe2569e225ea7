import { fileURLToPath } from 'node:url'
import Docker from 'dockerode'
import { defineConfig } from 'vitest/config'

const root = fileURLToPath(new URL('..', import.meta.url))
const at = (path: string) => `${root}${path}`

const here = {
  resolve: {
    alias: [
      { find: /^gamekeeper$/, replacement: at('src/index.ts') },
      { find: /^gamekeeper\/(client|dashboard|http|metrics|sdk|testing|tracing)$/, replacement: at('src/$1/index.ts') },
      { find: /^gamekeeper\/(memory|process|docker|kubernetes)$/, replacement: at('adapters/$1/index.ts') },
    ],
  },
}
/** Generous, because a slow machine is no failure: what hangs is reported late, but reported. */
const common = {
  pool: 'forks',
  testTimeout: 90_000,
  hookTimeout: 120_000,
  expect: { poll: { timeout: 60_000 } },
} as const
/** The rules, and the engine on a virtual clock. They share nothing but modules, so one process runs many of these files. */
const logic = ['contracts', 'engine', 'fleet', 'metrics', 'rules', 'util'].map((part) => `test/${part}/**/*.test.ts`)
/** They start dozens of processes: one file at a time, after all others. */
const heavy = [
  'test/adapters/docker/**/*.test.ts',
  'test/adapters/kubernetes/**/*.test.ts',
  'test/e2e/**/*.test.ts',
  'test/soak/**/*.test.ts',
  'test/bench/**/*.test.ts',
  'test/simulation/**/*.test.ts',
]

/** A machine with systemd, in a container. */
const systemd = 'test/adapters/process/systemd/systemd.test.ts'

/** Those of the above that every run includes. */
const brief = ['test/e2e/first-steps.test.ts', 'test/e2e/quickstart.test.ts', 'test/e2e/host-killed.test.ts']

const scenarios = [
  'broken-builds',
  'burst',
  'deletion',
  'endings',
  'first-steps',
  'gsdk-games',
  'host-killed',
  'late-starts',
  'leaving',
  'maintenance',
  'session-ids',
  'several-sessions',
]

/**
 * Whether to run what takes long, too: on CI, which requires the engines, in `npm run test:all`, and in runs of files that are
 * named. The other runs take minutes and say what they left out.
 */
const all =
  process.env['TEST_SCOPE'] === 'all' ||
  process.env['REQUIRE_ENGINES'] !== undefined ||
  process.argv.some((argument) => argument.startsWith('test/') && !argument.endsWith('vitest.config.ts'))

/** Tests in this process import the sources; processes that they start import the built package. */
export default defineConfig({
  root,
  test: {
    globalSetup: ['test/package/leftovers.ts'],
    coverage: { include: ['src/**', 'adapters/**'], reportsDirectory: 'coverage' },
    projects: [
      {
        ...here,
        root,
        test: {
          ...common,
          name: 'logic',
          include: logic,
          isolate: false,
          maxWorkers: '100%',
          sequence: { groupOrder: 0 },
        },
      },
      {
        ...here,
        root,
        test: {
          ...common,
          name: 'parts',
          include: ['test/**/*.test.ts'],
          exclude: [...heavy, ...logic, systemd],
          /** Most tests wait for processes and sockets rather than compute. */
          maxWorkers: '100%',
          sequence: { groupOrder: 0 },
        },
      },
      {
        ...here,
        root,
        test: {
          ...common,
          name: 'whole',
          include: all ? heavy : [...brief, 'test/package/long-tests.ts'],
          // The dashboard's other tests use processes.
          exclude: ['left-out', 'outages', 'dashboard'].map((name) => `test/e2e/${name}.test.ts`),
          fileParallelism: false,
          sequence: { groupOrder: 1 },
        },
      },
      ...(all ? await onEngines() : []),
    ],
  },
})

/** The scenarios once more, as pods and as containers. */
async function onEngines() {
  return [
    {
      ...here,
      root,
      test: {
        ...common,
        name: 'kubernetes',
        include: scenariosOnKubernetes(),
        env: { E2E_BACKEND: 'kubernetes' },
        fileParallelism: false,
        sequence: { groupOrder: 3 },
      },
    },
    {
      ...here,
      root,
      test: {
        ...common,
        name: 'docker',
        include: await scenariosOnDocker(),
        env: { E2E_BACKEND: 'docker' },
        fileParallelism: false,
        sequence: { groupOrder: 2 },
      },
    },
  ]
}

/** The same as pods, where there is a cluster: those that need it say so themselves elsewhere. */
function scenariosOnKubernetes(): string[] {
  if (process.env['KUBECONFIG'] === undefined) return ['test/e2e/left-out.test.ts']
  return [...scenarios, 'outages'].map((name) => `test/e2e/${name}.test.ts`)
}

/** The scenarios that are not about processes or settings, once more as containers, where there is an engine. */
async function scenariosOnDocker(): Promise<string[]> {
  try {
    await new Docker().listContainers({ limit: 1, abortSignal: AbortSignal.timeout(10_000) })
    return [...[...scenarios, 'dashboard'].map((name) => `test/e2e/${name}.test.ts`), 'test/soak/soak.test.ts', systemd]
  } catch {
    // Those that say so.
    return ['test/e2e/left-out.test.ts', systemd]
  }
}
