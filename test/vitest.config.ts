import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import Docker from 'dockerode'
import { defineConfig } from 'vitest/config'
import * as circles from './circles.js'
import { Summary } from './reporter.js'

const root = fileURLToPath(new URL('..', import.meta.url))
const at = (path: string) => `${root}${path}`
const scope = circles.scopeOf(process.env, process.argv)
/** Where to write the results as JSON. */
const results = process.env['TEST_RESULTS']
const hasDocker = scope !== 'brief' && (await dockerAnswers())
const hasCluster = process.env['KUBECONFIG'] !== undefined

const here = {
  root,
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
  testTimeout: 300_000,
  hookTimeout: 300_000,
  expect: { poll: { timeout: 60_000 } },
  setupFiles: [fileURLToPath(new URL('wait-for.ts', import.meta.url))],
} as const

/**
 * Projects of the same order share their workers, so `maxWorkers` must be the same for all of them. The quick ones have more than there are
 * cores, since many wait for processes and sockets.
 */
const quick = { maxWorkers: 2 * availableParallelism(), sequence: { groupOrder: 0 } } as const
const slow = { maxWorkers: 2, sequence: { groupOrder: 1 } } as const
const alone = { maxWorkers: 1, sequence: { groupOrder: 2 } } as const

/** Tests in this process import the sources; processes that they start import the built package. */
export default defineConfig({
  root,
  test: {
    globalSetup: ['test/package/leftovers.ts'],
    coverage: { include: ['src/**', 'adapters/**'], reportsDirectory: 'coverage' },
    reporters: results === undefined ? ['default', new Summary()] : ['default', new Summary(), 'json'],
    ...(results !== undefined && { outputFile: { json: results } }),
    projects: [
      project('logic', circles.logic, { ...quick, isolate: false }),
      project('parts', circles.parts, { ...quick, isolate: false }),
      project('processes', circles.processes, quick),
      project('whole', circles.serial(scope), slow),
      project('docker', circles.onDocker(scope, hasDocker), { ...slow, env: { E2E_BACKEND: 'docker' } }),
      project('kubernetes', circles.onKubernetes(scope, hasCluster), { ...slow, env: { E2E_BACKEND: 'kubernetes' } }),
      project('alone', circles.last(scope), alone),
      project('outages', circles.onKubernetesAlone(scope, hasCluster), {
        ...alone,
        env: { E2E_BACKEND: 'kubernetes' },
      }),
    ].flat(),
  },
})

/** Nothing without files. */
function project(name: string, include: readonly string[], options: object): object[] {
  return include.length === 0 ? [] : [{ ...here, test: { ...common, name, include: [...include], ...options } }]
}

async function dockerAnswers(): Promise<boolean> {
  try {
    await new Docker().listContainers({ limit: 1, abortSignal: AbortSignal.timeout(10_000) })
    return true
  } catch {
    return false
  }
}
