/** A conformance suite is a list of independent, named cases that any test runner can run in any order. */

export interface ConformanceCase {
  /** A sentence that describes the expected behaviour. */
  readonly name: string
  /** Rejects with an AssertionError if the adapter does not conform. */
  readonly run: () => Promise<void>
}
