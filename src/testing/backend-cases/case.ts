/** One case of the backend conformance suite. */
import type { Subject } from '../backend-subject.js'

export interface BackendCase {
  /** It needs a backend with just so many public ports. */
  readonly publicPorts?: number
  check(subject: Subject): Promise<void>
}

/** Keeps the names of the cases as types, so that a misspelt name does not compile. */
export function backendCases<N extends string>(
  cases: Readonly<Record<N, BackendCase>>,
): Readonly<Record<N, BackendCase>> {
  return cases
}
