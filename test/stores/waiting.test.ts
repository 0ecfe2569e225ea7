/** A start that overlaps the end of another process waits for its directory. */
import { createFleet } from 'gamekeeper'
import { processBackend } from 'gamekeeper/process'
import { expect, it, onTestFinished, vi } from 'vitest'
import { temporaryFolder } from '../sdk/fake-agent.js'

it('a fleet waits until the one before it has closed, if its backend says so', async () => {
  const directory = await temporaryFolder()
  const open = (waitForDirectoryMs: number, warn = vi.fn()) => {
    const logger = { debug() {}, info() {}, warn, error() {} }
    return createFleet({
      backend: processBackend({ directory, waitForDirectoryMs, logger }),
      agent: { port: 0 },
      logger,
    })
  }
  const first = await open(0)
  onTestFinished(() => first.close())
  await expect(open(0)).rejects.toMatchObject({
    code: 'directory-in-use',
    message: expect.stringContaining('keep the fleet with fleetOnce'),
  })
  const warn = vi.fn()
  const second = open(60_000, warn)
  const waits = /is in use by .*; waiting up to 60000 ms until it is free$/
  const warned = () => expect(warn.mock.calls.map(([, text]) => text)).toEqual([expect.stringMatching(waits)])
  await vi.waitFor(warned, { timeout: 60_000 })
  await first.close()
  const fleet = await second
  onTestFinished(() => fleet.close())
  expect(await fleet.health()).toMatchObject({ leads: true })
})
