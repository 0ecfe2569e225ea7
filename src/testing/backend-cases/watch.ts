/** What listeners are told. A hint may be replaced by `resync`, never by silence. */
import assert from 'node:assert/strict'
import type { Instance, InstanceSpec } from '../../contracts/backend.js'
import type { Subject, Told } from '../backend-subject.js'
import { backendCases } from './case.js'

export const watchCases = backendCases({
  'a listener is told when an instance runs': {
    async check(subject) {
      const told = await subject.watch()
      const spec = subject.spec('runs')
      await subject.running(spec)
      await toldOf(subject, told, spec, (instance) => instance.phase === 'running')
    },
  },

  'a listener is told of an exit, with its code': {
    async check(subject) {
      const told = await subject.watch()
      const specs = [subject.spec('exits-0'), subject.spec('exits-3')] as const
      await Promise.all(specs.map((spec) => subject.backend.create(spec)))
      await toldOf(subject, told, specs[0], ({ phase, exitCode }) => phase === 'exited' && exitCode === 0)
      await toldOf(subject, told, specs[1], ({ phase, exitCode }) => phase === 'exited' && exitCode === 3)
    },
  },

  'a listener is told when an instance is gone': {
    async check(subject) {
      const told = await subject.watch()
      const spec = subject.spec('runs')
      await subject.running(spec)
      const resyncs = told.resyncs
      await subject.end(spec)
      await subject.eventually('gone or resync', () => {
        const gone = told.gone.find(({ uid }) => uid === spec.uid)
        if (gone) assert.deepEqual({ ...gone.ref }, { ...spec.ref })
        return gone || told.resyncs > resyncs || undefined
      })
    },
  },

  'every listener is told': {
    async check(subject) {
      const listeners = [await subject.watch(), await subject.watch()]
      const spec = subject.spec('exits-3')
      await subject.backend.create(spec)
      for (const told of listeners) await toldOf(subject, told, spec, (instance) => instance.phase === 'exited')
    },
  },

  'a listener that stopped is told nothing more': {
    async check(subject) {
      const stopped = await subject.watch()
      const other = await subject.watch()
      stopped.stop()
      stopped.stop()
      const spec = subject.spec('runs')
      await subject.running(spec)
      await toldOf(subject, other, spec, (instance) => instance.phase === 'running')
      await subject.end(spec)
      await subject.eventually('the other listener hears of the end', () => {
        return other.gone.some(({ uid }) => uid === spec.uid) || other.resyncs > 0 || undefined
      })
      assert.deepEqual([stopped.changed.length, stopped.gone.length], [0, 0])
    },
  },

  'a listener that throws breaks nothing': {
    async check(subject) {
      const fail = () => {
        throw new Error('a listener of the conformance suite throws, as it should')
      }
      subject.backend.watch({ changed: fail, gone: fail, resync: fail, heartbeat: fail })
      const told = await subject.watch()
      const spec = subject.spec('exits-3')
      await subject.backend.create(spec)
      await toldOf(subject, told, spec, (instance) => instance.phase === 'exited')
      await subject.end(spec)
      const next = subject.spec('runs')
      await subject.running(next)
      await toldOf(subject, told, next, (instance) => instance.phase === 'running')
    },
  },
})

/** Told so itself, or told to list again when listing shows it. */
async function toldOf(
  subject: Subject,
  told: Told,
  spec: InstanceSpec,
  holds: (instance: Instance) => boolean,
): Promise<void> {
  await subject.eventually(`a listener is told of ${spec.ref.name}`, async () => {
    if (told.changed.some((instance) => instance.uid === spec.uid && holds(instance))) return true
    if (told.resyncs === 0) return undefined
    const listed = await subject.find(spec)
    return (listed && holds(listed)) || undefined
  })
}
