/** A case of the backend conformance suite. */
import type { Subject } from '../backend-subject.js'

export interface BackendCase {
  /** If set, the case needs a backend with exactly this many public ports. */
  readonly publicPorts?: number
  check(subject: Subject): Promise<void>
}

/** Preserves the case names as literal types, so that a misspelt name does not compile. */
export function backendCases<N extends string>(
  cases: Readonly<Record<N, BackendCase>>,
): Readonly<Record<N, BackendCase>> {
  return cases
}
