/** Types and helpers for the store scenarios. */
import assert from 'node:assert/strict'
import { FleetError, type ErrorCode } from '../../contracts/errors.js'
import type { Collection, Store } from '../../contracts/store.js'
import type { Ref } from '../../rules/model/resources.js'

export interface Kind<T extends Ref> {
  readonly name: string
  of(store: Store): Collection<T>
  complete(ref: Ref): T
  minimal(ref: Ref): T
  /** Returns the record with a change that is different for each `n`. */
  changed(record: T, n: number): T
}

export interface Scenario {
  readonly name: string
  readonly run: (store: Store) => Promise<void>
}

export interface DurabilityScenario {
  readonly name: string
  /** Runs before the store is closed and reopened. Resolves to values for `after`. */
  readonly before: (store: Store) => Promise<readonly string[]>
  readonly after: (store: Store, result: readonly string[]) => Promise<void>
}

export async function rejects(code: ErrorCode, promise: Promise<unknown>): Promise<void> {
  const outcome = await promise.then(
    (value) => ({ value }),
    (error: unknown) => ({ error }),
  )
  if ('value' in outcome) assert.fail(`expected '${code}', but it resolved with ${String(outcome.value)}`)
  assert.ok(FleetError.is(outcome.error, code), `expected '${code}', but it rejected with ${String(outcome.error)}`)
}

export function byName<T extends Ref>(records: readonly T[]): readonly T[] {
  return records.toSorted((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0))
}

export function range(count: number): readonly number[] {
  return Array.from({ length: count }, (_, n) => n)
}
