/** How instances come, are listed, and go. */
import assert from 'node:assert/strict'
import { rejectsWith } from '../backend-subject.js'
import { backendCases } from './case.js'

export const lifeCases = backendCases({
  'a created instance is listed and gets to run, with an address': {
    async check(subject) {
      const spec = subject.spec('runs')
      const created = await subject.backend.create(spec)
      assert.deepEqual(created.ref, spec.ref)
      assert.equal(created.uid, spec.uid)
      assert.ok(await subject.find(spec), 'an instance is listed as soon as its create has resolved')
      const running = await subject.inPhase(spec, 'running')
      assert.deepEqual(running.ref, spec.ref)
      assert.ok(running.address, 'a running instance has an address')
      assert.equal(running.exitCode, undefined, 'a running instance has no exit code')
    },
  },

  'the same ref and uid again is the same instance': {
    async check(subject) {
      const spec = subject.spec('runs')
      const first = await subject.running(spec)
      const again = await subject.backend.create(spec)
      assert.equal(again.uid, spec.uid)
      assert.deepEqual(again.ports, first.ports)
      assert.equal((await subject.backend.list()).length, 1)
    },
  },

  'the same ref and uid many times at once is one instance': {
    async check(subject) {
      const spec = subject.spec('runs', { portsToExpose: [7777, 7778] })
      await Promise.all(Array.from({ length: 5 }, () => subject.backend.create(spec)))
      const running = await subject.inPhase(spec, 'running')
      for (const again of await Promise.all(Array.from({ length: 5 }, () => subject.backend.create(spec)))) {
        assert.deepEqual(again.ports, running.ports)
      }
      assert.equal((await subject.backend.list()).length, 1)
    },
  },

  'another uid under the ref of a living instance is a conflict': {
    async check(subject) {
      const spec = subject.spec('runs')
      const before = await subject.running(spec)
      await rejectsWith('conflict', subject.backend.create(subject.spec('runs', { name: spec.ref.name })))
      assert.deepEqual(await subject.backend.list(), [before])
    },
  },

  'a ref is free again when its instance was destroyed': {
    async check(subject) {
      const first = subject.spec('runs')
      await subject.running(first)
      await subject.end(first)
      const second = subject.spec('runs', { name: first.ref.name })
      await subject.running(second)
      assert.equal(await subject.find(first), undefined)
    },
  },

  'an exit with 0 is listed as such': {
    async check(subject) {
      const spec = subject.spec('exits-0')
      await subject.backend.create(spec)
      assert.equal((await subject.inPhase(spec, 'exited')).exitCode, 0)
    },
  },

  'an exit with another code is listed with that code': {
    async check(subject) {
      const spec = subject.spec('exits-3')
      await subject.backend.create(spec)
      assert.equal((await subject.inPhase(spec, 'exited')).exitCode, 3)
    },
  },

  'an exited instance stays listed until it is destroyed': {
    async check(subject) {
      const spec = subject.spec('exits-3')
      await subject.backend.create(spec)
      const exited = await subject.inPhase(spec, 'exited')
      const other = subject.spec('runs')
      await subject.running(other)
      await subject.end(other)
      assert.deepEqual(await subject.find(spec), exited)
      const again = await subject.backend.create(spec)
      assert.equal(again.phase, 'exited', 'creating it again does not start it again')
      await subject.end(spec)
      assert.deepEqual(await subject.backend.list(), [])
    },
  },

  'a command that does not exist gives an exited instance with a reason': {
    async check(subject) {
      const spec = subject.spec('no-such-command')
      await subject.backend.create(spec)
      const exited = await subject.inPhase(spec, 'exited')
      assert.ok(exited.reason?.trim(), 'its reason says why it could not run')
      assert.notEqual(exited.exitCode, 0)
    },
  },

  'destroying an instance takes it off the list': {
    async check(subject) {
      const spec = subject.spec('runs')
      await subject.running(spec)
      await subject.inTime('destroy of a program that ends when told', destroyWithLongGrace())
      assert.deepEqual(await subject.backend.list(), [])

      function destroyWithLongGrace() {
        return subject.backend.destroy(spec.ref, spec.uid, { graceMs: 10 * subject.timeoutMs })
      }
    },
  },

  'destroying what does not exist is success': {
    async check(subject) {
      const spec = subject.spec('runs')
      await subject.end(spec)
      await subject.running(spec)
      await subject.end(spec)
      await subject.end(spec)
      assert.deepEqual(await subject.backend.list(), [])
    },
  },

  'destroying another uid leaves the instance alone': {
    async check(subject) {
      const spec = subject.spec('runs')
      const before = await subject.running(spec)
      await subject.backend.destroy(spec.ref, subject.spec('runs').uid, { graceMs: 0 })
      assert.deepEqual(await subject.backend.list(), [before])
    },
  },

  'destroying one instance many times at once ends it once': {
    async check(subject) {
      const spec = subject.spec('runs')
      const other = subject.spec('runs')
      await Promise.all([subject.running(spec), subject.running(other)])
      await Promise.all(Array.from({ length: 5 }, () => subject.end(spec)))
      assert.equal(await subject.find(spec), undefined)
      assert.equal((await subject.find(other))?.phase, 'running')
    },
  },

  'a program that does not end when told is killed after its grace period, not before': {
    async check(subject) {
      const spec = subject.spec('ignores-terminate')
      await subject.programUp(await subject.running(spec))
      const startedAt = performance.now()
      const { graceMs } = subject
      const done = subject.backend.destroy(spec.ref, spec.uid, { graceMs })
      await subject.inTime('destroy of a program that ignores being told', done)
      // Timers may be a little early, never by a tenth.
      assert.ok(performance.now() - startedAt >= graceMs * 0.9, `it was killed before ${graceMs} ms had passed`)
      assert.deepEqual(await subject.backend.list(), [])
    },
  },

  'no grace kills at once': {
    async check(subject) {
      const spec = subject.spec('ignores-terminate')
      await subject.programUp(await subject.running(spec))
      await subject.inTime('destroy without grace', subject.end(spec))
      assert.deepEqual(await subject.backend.list(), [])
    },
  },

  'a destroy that overtakes the create leaves nothing behind once it is repeated': {
    async check(subject) {
      const spec = subject.spec('runs')
      await Promise.allSettled([subject.backend.create(spec), subject.end(spec)])
      await subject.end(spec)
      assert.deepEqual(await subject.backend.list(), [])
      await subject.running(subject.spec('runs', { name: spec.ref.name }))
    },
  },

  'a call with an aborted signal rejects and does nothing': {
    async check(subject) {
      const { backend } = subject
      const signal = AbortSignal.abort()
      await rejectsWith('aborted', backend.create(subject.spec('runs'), { signal }))
      const spec = subject.spec('runs')
      const before = await subject.running(spec)
      await rejectsWith('aborted', backend.destroy(spec.ref, spec.uid, { graceMs: 0, signal }))
      await rejectsWith('aborted', backend.list({ signal }))
      assert.deepEqual(await backend.list(), [before])
    },
  },

  'the list is complete': {
    async check(subject) {
      const specs = [
        ...Array.from({ length: 8 }, () => subject.spec('runs')),
        ...Array.from({ length: 4 }, () => subject.spec('exits-3')),
      ]
      await Promise.all(specs.map((spec) => subject.backend.create(spec)))
      const listed = (await subject.backend.list()).map((instance) => instance.uid)
      assert.deepEqual(listed.sort(), specs.map((spec) => spec.uid).sort())
    },
  },

  'one name in two namespaces is two instances': {
    async check(subject) {
      const [one, two] = subject.namespaces
      const first = subject.spec('runs', { namespace: one })
      const second = subject.spec('runs', { namespace: two, name: first.ref.name })
      await Promise.all([subject.running(first), subject.running(second)])
      await subject.end(first)
      const left = await subject.backend.list()
      assert.deepEqual(
        left.map(({ ref, uid }) => ({ ref, uid })),
        [{ ref: second.ref, uid: second.uid }],
      )
      assert.equal(left[0]?.phase, 'running')
    },
  },
})
