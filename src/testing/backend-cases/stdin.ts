/** Conformance cases: lines reach the standard input of a game. Need a backend with `logs` and `writeStdin`. */
import assert from 'node:assert/strict'
import type { Ref } from '../../rules/model/resources.js'
import { rejectsWith, type Subject } from '../backend-subject.js'
import { backendCases } from './case.js'

export const stdinCases = backendCases({
  'stdin: lines reach the game in their order, before and after a host restart': {
    async check(subject) {
      const { ref } = subject.spec('prints-stdin')
      await subject.running(subject.spec('prints-stdin', { name: ref.name }))
      const first = ['say hello', '', `über ${'x'.repeat(4_000)}`]
      for (const line of first) await write(subject, ref, line)
      await printed(subject, ref, first)
      await subject.reopen()
      await write(subject, ref, 'stop')
      await printed(subject, ref, [...first, 'stop'])
    },
  },

  'stdin: a game without it takes no line, nor does one that does not exist': {
    async check(subject) {
      const spec = subject.spec('runs')
      await subject.running(spec)
      await rejectsWith('no-stdin', write(subject, spec.ref, 'hello'))
      await rejectsWith('not-found', write(subject, { ...spec.ref, name: 'nobody' }, 'hello'))
    },
  },
})

async function write({ backend }: Subject, ref: Ref, line: string): Promise<void> {
  assert.ok(backend.writeStdin, 'the backend has no writeStdin')
  await backend.writeStdin(ref, `${line}\n`)
}

function printed(subject: Subject, ref: Ref, expected: readonly string[]): Promise<unknown> {
  return subject.eventually(`the game has printed ${expected.length} lines`, async () => {
    const lines: string[] = []
    for await (const line of subject.backend.logs?.(ref) ?? []) lines.push(line)
    if (lines.length < expected.length) return undefined
    assert.deepEqual(lines, expected)
    return true
  })
}
