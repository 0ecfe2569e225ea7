/** The agent address that game servers get is a valid host and port. */
import { createFleet, memoryStore, systemClock } from 'gamekeeper'
import { memoryBackend } from 'gamekeeper/memory'
import { expect, it, onTestFinished, vi } from 'vitest'
import { build } from '../http/fleet.js'

it.each([
  [undefined, /^127\.0\.0\.1:\d+$/],
  ['10.0.0.4', /^10\.0\.0\.4:\d+$/],
  ['agent.games.svc:7001', /^agent\.games\.svc:7001$/],
  ['[fd00::4]', /^\[fd00::4\]:\d+$/],
  ['[fd00::4]:7001', /^\[fd00::4\]:7001$/],
  ['fd00::4', /^\[fd00::4\]:\d+$/],
  ['fd00::a', /^\[fd00::a\]:\d+$/],
])('the address of an agent at %s includes a port', async (address, expected) => {
  const backend = { ...memoryBackend(), capabilities: { template: 'pod', agent: true } } as const
  const agent = { host: '127.0.0.1', port: 0, ...(address !== undefined && { address }) }
  const fleet = await createFleet({ backend, store: memoryStore(), agent })
  onTestFinished(() => fleet.close())
  expect(fleet.agentAddress).toMatch(expected)
  expect(URL.canParse(`http://${fleet.agentAddress}/v1`)).toBe(true)
})

it('a new port at each start is told to whoever restarts a host over servers of an earlier one', async () => {
  const silent = memoryBackend({ clock: systemClock, script: 'manual', heartbeatIntervalMs: 0 })
  const backend = { ...silent, capabilities: { template: 'pod', agent: true } } as const
  const store = memoryStore()
  const warn = vi.fn()
  const open = async (port: number) => {
    const logger = { debug() {}, info() {}, warn, error() {} }
    const fleet = await createFleet({ backend, store, logger, agent: { host: '127.0.0.1', port } })
    onTestFinished(() => fleet.close())
    return fleet
  }
  const first = await open(0)
  await first.builds.create(build({ standingBy: 2 }))
  await vi.waitFor(async () => expect(await first.servers.list()).toHaveLength(2))
  const port = Number(first.agentAddress?.split(':')[1])
  await first.close()
  expect(warn).not.toHaveBeenCalled()
  await (await open(port)).close()
  expect(warn).not.toHaveBeenCalled()
  await open(0)
  expect(warn.mock.calls).toEqual([[{ servers: 2 }, expect.stringContaining('agent.port is 0')]])
})
