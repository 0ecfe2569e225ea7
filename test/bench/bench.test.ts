/** Checks that the benchmarks run. Does not check their figures, which depend on the machine. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'

/** Less than the tests' own, so that a benchmark that hangs is ended, and its last line on stderr is in the error. */
const timeout = 170_000

const program = (file: string, ...flags: readonly string[]) =>
  promisify(execFile)(process.execPath, ['--import', 'tsx', `test/bench/${file}`, ...flags], {
    cwd: fileURLToPath(new URL('../..', import.meta.url)),
    timeout,
    killSignal: 'SIGKILL',
  })
const bench = (...flags: readonly string[]) => program('main.ts', ...flags)

it('`npm run bench` prints its rows as JSON and nothing else', { timeout: 180_000 }, async () => {
  const { stdout, stderr } = await bench('--quick', '--json')
  // Three rows need a Docker engine, four need a Kubernetes cluster, and eleven need hollow nodes.
  const optionalRows = {
    'docker-start-1': 3,
    'allocate-kubernetes': 3,
    'kubernetes-start-400': 1,
    'failover-killed': 5,
    'allocate-cluster-1': 5,
    'replacement-cluster': 1,
  }
  const leftOut = Object.entries(optionalRows).filter(([name]) => stderr.includes(`left out ${name}`))
  const count = leftOut.reduce((sum, [, rows]) => sum - rows, 35)
  const rows: unknown = JSON.parse(stdout)
  expect(rows).toHaveLength(count)
  expect(rows).toEqual(
    Array.from({ length: count }, () => ({
      name: expect.any(String),
      value: expect.any(Number),
      unit: expect.any(String),
      baseline: expect.toSatisfy((value) => value === null || typeof value === 'number'),
      ratio: expect.toSatisfy((value) => value === null || typeof value === 'number'),
      goal: expect.stringMatching(/^(value|ratio) [≤≥] /),
      met: expect.any(Boolean),
    })),
  )
})

it('`npm run bench:http` handles many connections without an error', { timeout: 180_000 }, async () => {
  const { stdout } = await program('http.ts', '--quick', '--json')
  const rows: readonly { readonly name: string; readonly value: number }[] = JSON.parse(stdout)
  expect(rows.map(({ name }) => name)).toEqual(['http-throughput', 'http-work', 'http-p50', 'http-p99', 'http-errors'])
  expect(rows.at(-1)?.value).toBe(0)
})

it('`npm run bench` rejects unknown options and rows', async () => {
  await expect(bench('--fast')).rejects.toMatchObject({ code: 2, stderr: expect.stringContaining('see --help') })
  await expect(bench('--only', 'coffee')).rejects.toMatchObject({
    code: 2,
    stderr: expect.stringContaining('unknown row coffee'),
  })
})
