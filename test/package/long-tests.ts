/** Says in a run without TEST_SCOPE=all what the run leaves out. */
import { expect, test } from 'vitest'

const leftOut = [
  'the adapters on a Docker engine and on a cluster',
  'most end-to-end scenarios, on processes, Docker and Kubernetes',
  'the simulation and its planted bugs (npm run simulate)',
  'the soak test (npm run soak)',
  'the benchmarks (npm run bench)',
]

test('LEFT OUT, because they take long: `npm run test:all` runs them', () => {
  console.warn(`left out, because they take long (npm run test:all runs them):\n  ${leftOut.join('\n  ')}`)
  expect(process.env['REQUIRE_ENGINES'], 'REQUIRE_ENGINES wants every test').toBeUndefined()
})
