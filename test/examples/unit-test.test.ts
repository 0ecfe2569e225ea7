/** The example unit test passes when run as documented. */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'

it('the example unit test passes with the documented command', async () => {
  const cwd = fileURLToPath(new URL('../..', import.meta.url))
  const example = 'examples/unit-test/matchmaker.test.ts'
  // This runner's NODE_* and NODE_TEST_* variables would change the run.
  const { PATH, HOME } = process.env
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ['--import', 'tsx', '--test', '--test-reporter=tap', example],
    {
      cwd,
      env: { PATH, HOME },
    },
  )
  expect(stdout).toMatch(/^# pass 4$/m)
  expect(stdout).toMatch(/^# fail 0$/m)
})
