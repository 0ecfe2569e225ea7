/** What a restart of the host leaves as it is. */
import assert from 'node:assert/strict'
import { rejectsWith } from '../backend-subject.js'
import { backendCases } from './case.js'

export const restartCases = backendCases({
  'closing leaves instances running, and the next backend lists them as they were': {
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

  'an instance of an earlier backend is created no second time': {
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

  'an exit code survives the restart': {
    async check(subject) {
      const spec = subject.spec('exits-3')
      await subject.backend.create(spec)
      await subject.inPhase(spec, 'exited')
      await subject.reopen()
      assert.equal((await subject.inPhase(spec, 'exited')).exitCode, 3)
    },
  },

  'an exit during or after the restart is seen, with its code': {
    async check(subject) {
      const spec = subject.spec('exits-5-late')
      await subject.backend.create(spec)
      await subject.reopen()
      assert.equal((await subject.inPhase(spec, 'exited')).exitCode, 5)
    },
  },

  'an instance of an earlier backend is ended and forgotten like any other': {
    async check(subject) {
      const obedient = subject.spec('runs')
      const stubborn = subject.spec('ignores-terminate')
      await Promise.all([subject.running(obedient), subject.running(stubborn)])
      await subject.reopen()
      const told = await subject.watch()
      const end = (spec: typeof obedient, graceMs: number) =>
        subject.inTime('destroy', subject.backend.destroy(spec.ref, spec.uid, { graceMs }))
      await Promise.all([end(obedient, 10 * subject.timeoutMs), end(stubborn, 0)])
      assert.deepEqual(await subject.backend.list(), [])
      await subject.eventually('the new listener hears of both ends', () => {
        const gone = new Set(told.gone.map(({ uid }) => uid))
        return (gone.has(obedient.uid) && gone.has(stubborn.uid)) || told.resyncs > 0 || undefined
      })
    },
  },

  'public ports of earlier instances stay held after the restart, and come back': {
    publicPorts: 2,
    async check(subject) {
      const first = subject.spec('runs')
      const second = subject.spec('runs')
      await Promise.all([subject.running(first), subject.running(second)])
      await subject.reopen()
      await rejectsWith('ports-exhausted', subject.backend.create(subject.spec('runs')))
      await subject.end(first)
      const third = await subject.running(subject.spec('runs'))
      const held = (await subject.backend.list()).flatMap(({ ports }) => ports.map((port) => port.public))
      assert.equal(new Set(held).size, 2)
      assert.equal(third.ports.length, 1)
    },
  },
})
