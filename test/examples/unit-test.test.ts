/** The example of a host's unit test passes as its reader runs it. */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'

it('passes with the command that it names', async () => {
  const cwd = fileURLToPath(new URL('../..', import.meta.url))
  const example = 'examples/unit-test/matchmaker.test.ts'
  // Under this runner's NODE_* and NODE_TEST_* variables it would be another run.
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
