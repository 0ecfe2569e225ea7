/** How public ports are given and come back. */
import assert from 'node:assert/strict'
import { rejectsWith } from '../backend-subject.js'
import { backendCases } from './case.js'

export const portCases = backendCases({
  'ports are listed in the order of portsToExpose': {
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

  'an instance without ports has none': {
    async check(subject) {
      assert.deepEqual((await subject.running(subject.spec('runs', { portsToExpose: [] }))).ports, [])
    },
  },

  'instances created at once share no public port': {
    async check(subject) {
      const specs = Array.from({ length: 8 }, () => subject.spec('runs', { portsToExpose: [7777, 7778] }))
      const running = await Promise.all(specs.map((spec) => subject.running(spec)))
      const held = running.flatMap(({ node, ports }) => ports.map((port) => `${node}:${port.public}`))
      assert.equal(held.length, 16)
      assert.equal(new Set(held).size, 16, `a public port was given twice: ${held.join(' ')}`)
    },
  },

  'when no public port is left, create says so and starts nothing': {
    publicPorts: 2,
    async check(subject) {
      const spec = subject.spec('runs')
      await subject.running(spec)
      const tooMuch = subject.spec('runs', { portsToExpose: [7777, 7778] })
      await rejectsWith('ports-exhausted', subject.backend.create(tooMuch))
      assert.equal((await subject.backend.list()).length, 1)
      await subject.running(subject.spec('runs'))
    },
  },

  'public ports come back when their instance is destroyed': {
    publicPorts: 2,
    async check(subject) {
      for (const kind of ['runs', 'exits-3', 'runs', 'no-such-command', 'runs'] as const) {
        const spec = subject.spec(kind, { portsToExpose: [7777, 7778] })
        await subject.backend.create(spec)
        await subject.inPhase(spec, kind === 'runs' ? 'running' : 'exited')
        await Promise.all([subject.end(spec), subject.end(spec)])
      }
    },
  },
})
