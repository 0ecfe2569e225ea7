/** Helpers for tests of queries: bytes as readable as can be. */
import type { QueryStep } from '../../../src/rules/query/query-step.js'

/** Joins hexadecimal texts, numbers of single bytes, and bytes. */
export function bytes(...parts: readonly (string | readonly number[] | Uint8Array)[]): Uint8Array {
  return new Uint8Array(
    Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part, 'hex') : Buffer.from([...part])))),
  )
}

export function text(content: string): Uint8Array {
  return new TextEncoder().encode(content)
}

/** The step that follows when this is answered. */
export function next<T>(step: QueryStep<T>, datagram: Uint8Array): QueryStep<T> {
  const answer = step.read(datagram)
  if (answer.kind !== 'next') throw new Error(`expected a next step, not ${JSON.stringify(answer)}`)
  return answer.step
}

/** The bytes cut after each of them, but for the last. */
export function damaged(whole: Uint8Array): readonly Uint8Array[] {
  return Array.from({ length: whole.byteLength }, (_, length) => whole.slice(0, length))
}

/** Numbers from 0 to 1, the same for the same seed. */
export function seededRandom(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}
