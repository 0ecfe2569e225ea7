/** `isolation: 'systemd'` on a machine whose process 1 is systemd, which is a container: runs the files `*.inside.ts` there. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { describeOnEngine } from '../../docker/describe-on-engine.js'
import { type Machine, startMachine } from './machine.js'

describeOnEngine("isolation: 'systemd'", () => {
  let machine: Machine

  beforeAll(async () => {
    machine = await startMachine(`gamekeeper-systemd-test-${process.pid}`)
  }, 300_000)
  afterAll(() => machine?.remove())

  it('passes the conformance suite, keeps games apart, and leaves nothing behind', { timeout: 900_000 }, async () => {
    const config = 'test/adapters/process/systemd/vitest.config.ts'
    const vitest = [
      'env',
      'NO_COLOR=1',
      'node',
      'node_modules/vitest/vitest.mjs',
      'run',
      '--configLoader',
      'runner',
      '--config',
      config,
    ]
    const { code, output } = await machine.run(vitest)
    expect(code, output).toBe(0)
    expect(output).toMatch(/Tests +\d+ passed \(\d+\)/)
    const units = 'systemctl list-units --all --plain --no-legend "gamekeeper-*"'
    const isEmpty = `until [ -z "$(${units})" ]; do sleep 0.1; done`
    expect(await machine.run(['timeout', '60', 'sh', '-c', isEmpty])).toEqual({ code: 0, output: '' })
  })
})
