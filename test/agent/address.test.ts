/** The agent address that game servers get is a valid host and port. */
import { createFleet, memoryStore } from 'gamekeeper'
import { memoryBackend } from 'gamekeeper/memory'
import { expect, it, onTestFinished } from 'vitest'

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
