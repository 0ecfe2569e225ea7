/** Conformance cases: assigning and releasing public ports. */
import assert from 'node:assert/strict'
import { rejectsWith } from '../backend-subject.js'
import { backendCases } from './case.js'

export const portCases = backendCases({
  'ports: listed in the order of portsToExpose': {
    async check(subject) {
      const portsToExpose = [7777, 7000, 9000]
      const running = await subject.running(subject.spec('runs', { portsToExpose }))
      assert.deepEqual(
        running.ports.map((port) => port.container),
        portsToExpose,
      )
      for (const port of running.ports) {
        assert.ok(Number.isInteger(port.public) && port.public >= 1 && port.public <= 65_535, `port ${port.public}`)
      }
    },
  },

  'ports: an instance without portsToExpose has none': {
    async check(subject) {
      assert.deepEqual((await subject.running(subject.spec('runs', { portsToExpose: [] }))).ports, [])
    },
  },

  'ports: concurrent creates share no public port': {
    async check(subject) {
      const specs = Array.from({ length: 8 }, () => subject.spec('runs', { portsToExpose: [7777, 7778] }))
      const running = await Promise.all(specs.map((spec) => subject.running(spec)))
      const held = running.flatMap(({ node, ports }) => ports.map((port) => `${node}:${port.public}`))
      assert.equal(held.length, 16)
      assert.equal(new Set(held).size, 16, `a public port was assigned twice: ${held.join(' ')}`)
    },
  },

  'ports: create rejects with ports-exhausted and creates nothing if too few are free': {
    publicPorts: 2,
    async check(subject) {
      const spec = subject.spec('runs')
      await subject.running(spec)
      const tooMany = subject.spec('runs', { portsToExpose: [7777, 7778] })
      await rejectsWith('ports-exhausted', subject.backend.create(tooMany))
      assert.equal((await subject.backend.list()).length, 1)
      await subject.running(subject.spec('runs'))
    },
  },

  'ports: free again after destroy': {
    publicPorts: 2,
    async check(subject) {
      for (const kind of ['runs', 'exits-3', 'runs', 'no-such-command', 'runs'] as const) {
        const spec = subject.spec(kind, { portsToExpose: [7777, 7778] })
        await subject.backend.create(spec)
        await subject.inPhase(spec, kind === 'runs' ? 'running' : 'exited')
        await Promise.all([subject.destroyNow(spec), subject.destroyNow(spec)])
      }
    },
  },
})
