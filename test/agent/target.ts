/** A fleet in the eyes of its agent that knows every server, answers at once, and does what the test says. */
import type { AgentTarget } from '../../src/agent/index.js'
import { FleetError } from '../../src/index.js'

export function targetOf(more: Partial<AgentTarget>): AgentTarget {
  const refuse = () => Promise.reject(new FleetError('unsupported', 'this test does not do that'))
  return {
    heartbeat: () => ({ operation: 'Continue', nextHeartbeatIntervalMs: 1_000 }),
    knowsServer: () => true,
    parkHeartbeat: () => undefined,
    updateOwnData: refuse,
    allocateOwnServer: refuse,
    forwardHeartbeat: undefined,
    ...more,
  }
}
