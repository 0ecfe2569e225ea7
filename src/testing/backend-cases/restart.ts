/** Conformance cases: instances survive a host restart. */
import assert from 'node:assert/strict'
import { rejectsWith } from '../backend-subject.js'
import { backendCases } from './case.js'

export const restartCases = backendCases({
  'restart: instances keep running after close, and the next backend lists them unchanged': {
    async check(subject) {
      const specs = Array.from({ length: 3 }, () => subject.spec('runs', { portsToExpose: [7777, 7778] }))
      const before = await Promise.all(specs.map((spec) => subject.running(spec)))
      await subject.reopen()
      for (const instance of before) {
        const after = (await subject.backend.list()).find(({ uid }) => uid === instance.uid)
        assert.deepEqual(after && { ...after }, { ...instance })
      }
      assert.equal((await subject.backend.list()).length, before.length)
    },
  },

  'restart: create returns the existing instance of an earlier backend': {
    async check(subject) {
      const spec = subject.spec('runs')
      const before = await subject.running(spec)
      await subject.reopen()
      const again = await subject.backend.create(spec)
      assert.deepEqual(again.ports, before.ports)
      assert.equal((await subject.backend.list()).length, 1)
      await rejectsWith('conflict', subject.backend.create(subject.spec('runs', { name: spec.ref.name })))
    },
  },

  'restart: keeps exit codes': {
    async check(subject) {
      const spec = subject.spec('exits-3')
      await subject.backend.create(spec)
      await subject.inPhase(spec, 'exited')
      await subject.reopen()
      assert.equal((await subject.inPhase(spec, 'exited')).exitCode, 3)
    },
  },

  'restart: detects an exit during or after it, with its code': {
    async check(subject) {
      const spec = subject.spec('exits-5-late')
      await subject.backend.create(spec)
      await subject.reopen()
      assert.equal((await subject.inPhase(spec, 'exited')).exitCode, 5)
    },
  },

  'restart: destroys instances of an earlier backend': {
    async check(subject) {
      const terminates = subject.spec('runs')
      const ignoresTerminate = subject.spec('ignores-terminate')
      await Promise.all([subject.running(terminates), subject.running(ignoresTerminate)])
      await subject.reopen()
      const received = await subject.watch()
      const destroy = (spec: typeof terminates, graceMs: number) =>
        subject.inTime('destroy', subject.backend.destroy(spec.ref, spec.uid, { graceMs }))
      await Promise.all([destroy(terminates, 10 * subject.timeoutMs), destroy(ignoresTerminate, 0)])
      assert.deepEqual(await subject.backend.list(), [])
      await subject.eventually('the new listener receives both deletions', () => {
        const gone = new Set(received.gone.map(({ uid }) => uid))
        return (gone.has(terminates.uid) && gone.has(ignoresTerminate.uid)) || received.resyncs > 0 || undefined
      })
    },
  },

  'restart: keeps public ports in use until their instance is destroyed': {
    publicPorts: 2,
    async check(subject) {
      const first = subject.spec('runs')
      const second = subject.spec('runs')
      await Promise.all([subject.running(first), subject.running(second)])
      await subject.reopen()
      await rejectsWith('ports-exhausted', subject.backend.create(subject.spec('runs')))
      await subject.destroyNow(first)
      const third = await subject.running(subject.spec('runs'))
      const held = (await subject.backend.list()).flatMap(({ ports }) => ports.map((port) => port.public))
      assert.equal(new Set(held).size, 2)
      assert.equal(third.ports.length, 1)
    },
  },
})
