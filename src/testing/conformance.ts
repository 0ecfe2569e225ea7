/** The shape of a conformance suite: named cases that any test runner can run, each on its own and in any order. */

export interface ConformanceCase {
  /** A sentence about behaviour. */
  readonly name: string
  /** Resolves when the adapter behaves, rejects with an AssertionError that says how it does not. */
  readonly run: () => Promise<void>
}
