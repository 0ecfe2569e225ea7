/** Conformance cases: create and list. */
import assert from 'node:assert/strict'
import { rejectsWith } from '../backend-subject.js'
import { backendCases } from './case.js'

export const lifecycleCases = backendCases({
  'create: the instance is listed at once and reaches running with an address': {
    async check(subject) {
      const spec = subject.spec('runs')
      const created = await subject.backend.create(spec)
      assert.deepEqual(created.ref, spec.ref)
      assert.equal(created.uid, spec.uid)
      assert.ok(await subject.find(spec), 'the instance must be listed as soon as create has resolved')
      const running = await subject.inPhase(spec, 'running')
      assert.deepEqual(running.ref, spec.ref)
      assert.ok(running.address, 'a running instance must have an address')
      assert.equal(running.exitCode, undefined, 'a running instance must have no exit code')
    },
  },

  'create: the same ref and uid returns the existing instance': {
    async check(subject) {
      const spec = subject.spec('runs')
      const first = await subject.running(spec)
      const again = await subject.backend.create(spec)
      assert.equal(again.uid, spec.uid)
      assert.deepEqual(again.ports, first.ports)
      assert.equal((await subject.backend.list()).length, 1)
    },
  },

  'create: concurrent calls with the same ref and uid create one instance': {
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

  'create: rejects another uid for the ref of an existing instance with conflict': {
    async check(subject) {
      const spec = subject.spec('runs')
      const before = await subject.running(spec)
      await rejectsWith('conflict', subject.backend.create(subject.spec('runs', { name: spec.ref.name })))
      assert.deepEqual(await subject.backend.list(), [before])
    },
  },

  'create: the ref of a destroyed instance can be reused': {
    async check(subject) {
      const first = subject.spec('runs')
      await subject.running(first)
      await subject.destroyNow(first)
      const second = subject.spec('runs', { name: first.ref.name })
      await subject.running(second)
      assert.equal(await subject.find(first), undefined)
    },
  },

  'list: shows exit code 0': {
    async check(subject) {
      const spec = subject.spec('exits-0')
      await subject.backend.create(spec)
      assert.equal((await subject.inPhase(spec, 'exited')).exitCode, 0)
    },
  },

  'list: shows other exit codes': {
    async check(subject) {
      const spec = subject.spec('exits-3')
      await subject.backend.create(spec)
      assert.equal((await subject.inPhase(spec, 'exited')).exitCode, 3)
    },
  },

  'list: shows an exited instance until it is destroyed': {
    async check(subject) {
      const spec = subject.spec('exits-3')
      await subject.backend.create(spec)
      const exited = await subject.inPhase(spec, 'exited')
      const other = subject.spec('runs')
      await subject.running(other)
      await subject.destroyNow(other)
      assert.deepEqual(await subject.find(spec), exited)
      const again = await subject.backend.create(spec)
      assert.equal(again.phase, 'exited', 'a repeated create must not start an exited instance again')
      await subject.destroyNow(spec)
      assert.deepEqual(await subject.backend.list(), [])
    },
  },

  'list: shows a missing command as an exited instance with a reason': {
    async check(subject) {
      const spec = subject.spec('no-such-command')
      await subject.backend.create(spec)
      const exited = await subject.inPhase(spec, 'exited')
      assert.ok(exited.reason?.trim(), 'the exited instance must have a reason')
      assert.notEqual(exited.exitCode, 0)
    },
  },

  'every call with an aborted signal rejects with aborted and has no effect': {
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

  'list: shows all instances': {
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

  'the same name in two namespaces is two instances': {
    async check(subject) {
      const [one, two] = subject.namespaces
      const first = subject.spec('runs', { namespace: one })
      const second = subject.spec('runs', { namespace: two, name: first.ref.name })
      await Promise.all([subject.running(first), subject.running(second)])
      await subject.destroyNow(first)
      const left = await subject.backend.list()
      assert.deepEqual(
        left.map(({ ref, uid }) => ({ ref, uid })),
        [{ ref: second.ref, uid: second.uid }],
      )
      assert.equal(left[0]?.phase, 'running')
    },
  },
})
