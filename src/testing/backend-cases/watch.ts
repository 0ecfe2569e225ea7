/** Conformance cases: listeners receive events. A backend may send a `resync` instead of an event. */
import assert from 'node:assert/strict'
import type { Instance, InstanceSpec } from '../../contracts/backend.js'
import type { Received, Subject } from '../backend-subject.js'
import { backendCases } from './case.js'

export const watchCases = backendCases({
  'watch: reports a running instance': {
    async check(subject) {
      const received = await subject.watch()
      const spec = subject.spec('runs')
      await subject.running(spec)
      await expectReported(subject, received, spec, (instance) => instance.phase === 'running')
    },
  },

  'watch: reports an exit with its code': {
    async check(subject) {
      const received = await subject.watch()
      const specs = [subject.spec('exits-0'), subject.spec('exits-3')] as const
      await Promise.all(specs.map((spec) => subject.backend.create(spec)))
      await expectReported(subject, received, specs[0], ({ phase, exitCode }) => phase === 'exited' && exitCode === 0)
      await expectReported(subject, received, specs[1], ({ phase, exitCode }) => phase === 'exited' && exitCode === 3)
    },
  },

  'watch: reports a destroyed instance': {
    async check(subject) {
      const received = await subject.watch()
      const spec = subject.spec('runs')
      await subject.running(spec)
      const resyncs = received.resyncs
      await subject.destroyNow(spec)
      await subject.eventually('gone or resync', () => {
        const gone = received.gone.find(({ uid }) => uid === spec.uid)
        if (gone) assert.deepEqual({ ...gone.ref }, { ...spec.ref })
        return gone || received.resyncs > resyncs || undefined
      })
    },
  },

  'watch: reports to every listener': {
    async check(subject) {
      const listeners = [await subject.watch(), await subject.watch()]
      const spec = subject.spec('exits-3')
      await subject.backend.create(spec)
      for (const received of listeners)
        await expectReported(subject, received, spec, (instance) => instance.phase === 'exited')
    },
  },

  'watch: reports nothing to a stopped listener': {
    async check(subject) {
      const stopped = await subject.watch()
      const other = await subject.watch()
      stopped.stop()
      stopped.stop()
      const spec = subject.spec('runs')
      await subject.running(spec)
      await expectReported(subject, other, spec, (instance) => instance.phase === 'running')
      await subject.destroyNow(spec)
      await subject.eventually('the other listener receives the deletion', () => {
        return other.gone.some(({ uid }) => uid === spec.uid) || other.resyncs > 0 || undefined
      })
      assert.deepEqual([stopped.changed.length, stopped.gone.length], [0, 0])
    },
  },

  'watch: a listener that throws does not affect others': {
    async check(subject) {
      const fail = () => {
        throw new Error('thrown on purpose by a listener of the conformance suite')
      }
      subject.backend.watch({ changed: fail, gone: fail, resync: fail, heartbeat: fail })
      const received = await subject.watch()
      const spec = subject.spec('exits-3')
      await subject.backend.create(spec)
      await expectReported(subject, received, spec, (instance) => instance.phase === 'exited')
      await subject.destroyNow(spec)
      const next = subject.spec('runs')
      await subject.running(next)
      await expectReported(subject, received, next, (instance) => instance.phase === 'running')
    },
  },
})

/** Waits for the event, or for a `resync` after which `list` shows the change. */
async function expectReported(
  subject: Subject,
  received: Received,
  spec: InstanceSpec,
  holds: (instance: Instance) => boolean,
): Promise<void> {
  await subject.eventually(`the listener receives ${spec.ref.name}`, async () => {
    if (received.changed.some((instance) => instance.uid === spec.uid && holds(instance))) return true
    if (received.resyncs === 0) return undefined
    const listed = await subject.find(spec)
    return (listed && holds(listed)) || undefined
  })
}
