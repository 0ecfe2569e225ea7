/** Conformance cases: destroy. The order is the signal at once, then the whole grace period, then the kill. */
import assert from 'node:assert/strict'
import { backendCases } from './case.js'

export const destroyCases = backendCases({
  'destroy: removes the instance from the list': {
    async check(subject) {
      const spec = subject.spec('runs')
      await subject.running(spec)
      await subject.inTime('destroy of a program that terminates', destroyWithLongGrace())
      assert.deepEqual(await subject.backend.list(), [])

      function destroyWithLongGrace() {
        return subject.backend.destroy(spec.ref, spec.uid, { graceMs: 10 * subject.timeoutMs })
      }
    },
  },

  'destroy: succeeds if the instance does not exist': {
    async check(subject) {
      const spec = subject.spec('runs')
      await subject.destroyNow(spec)
      await subject.running(spec)
      await subject.destroyNow(spec)
      await subject.destroyNow(spec)
      assert.deepEqual(await subject.backend.list(), [])
    },
  },

  'destroy: does not affect an instance with another uid': {
    async check(subject) {
      const spec = subject.spec('runs')
      const before = await subject.running(spec)
      await subject.backend.destroy(spec.ref, subject.spec('runs').uid, { graceMs: 0 })
      assert.deepEqual(await subject.backend.list(), [before])
    },
  },

  'destroy: concurrent calls for one instance affect only that instance': {
    async check(subject) {
      const spec = subject.spec('runs')
      const other = subject.spec('runs')
      await Promise.all([subject.running(spec), subject.running(other)])
      await Promise.all(Array.from({ length: 5 }, () => subject.destroyNow(spec)))
      assert.equal(await subject.find(spec), undefined)
      assert.equal((await subject.find(other))?.phase, 'running')
    },
  },

  'destroy: kills a program that ignores termination after the grace period, not before': {
    async check(subject) {
      const spec = subject.spec('ignores-terminate')
      await subject.programUp(await subject.running(spec))
      const startedAt = performance.now()
      const { graceMs } = subject
      const done = subject.backend.destroy(spec.ref, spec.uid, { graceMs })
      await subject.inTime('destroy of a program that ignores termination', done)
      // Timers may fire slightly early, but never by 10 %.
      assert.ok(
        performance.now() - startedAt >= graceMs * 0.9,
        `it was killed before the grace period of ${graceMs} ms`,
      )
      assert.deepEqual(await subject.backend.list(), [])
    },
  },

  'destroy: sends the termination signal at once, and kills only after the whole grace period': {
    async check(subject) {
      const spec = await subject.ignoringTerminate()
      const startedAt = performance.now()
      const destroyed = subject.destroyWithLongGrace(spec)
      await subject.programSignalled(spec)
      const signalledMs = performance.now() - startedAt
      const { longGraceMs } = subject
      assert.ok(signalledMs < longGraceMs / 2, `the signal came ${signalledMs} ms after the call`)
      assert.equal(await subject.inTime('destroy of a program that ignores termination', destroyed), undefined)
      assert.ok(performance.now() - startedAt >= longGraceMs * 0.9, 'it was killed before its grace period was over')
    },
  },

  'destroy: kills at once without a grace period': {
    async check(subject) {
      const spec = subject.spec('ignores-terminate')
      await subject.programUp(await subject.running(spec))
      await subject.inTime('destroy without a grace period', subject.destroyNow(spec))
      assert.deepEqual(await subject.backend.list(), [])
    },
  },

  'destroy: repeated after a concurrent create, leaves no instance behind': {
    async check(subject) {
      const spec = subject.spec('runs')
      await Promise.allSettled([subject.backend.create(spec), subject.destroyNow(spec)])
      await subject.destroyNow(spec)
      assert.deepEqual(await subject.backend.list(), [])
      await subject.running(subject.spec('runs', { name: spec.ref.name }))
    },
  },

  'close: sends the termination signal to every instance that destroy was called for': {
    async check(subject) {
      const specs = await Promise.all(Array.from({ length: 3 }, () => subject.ignoringTerminate()))
      for (const spec of specs) void subject.destroyWithLongGrace(spec)
      await subject.reopen()
      await Promise.all(specs.map((spec) => subject.programSignalled(spec)))
    },
  },

  'close: does not terminate other instances': {
    async check(subject) {
      const [ending, other] = await Promise.all([subject.ignoringTerminate(), subject.running(subject.spec('runs'))])
      void subject.destroyWithLongGrace(ending)
      await subject.reopen()
      await subject.programSignalled(ending)
      const listed = (await subject.backend.list()).find(({ uid }) => uid === other.uid)
      assert.equal(listed?.phase, 'running')
    },
  },
})
